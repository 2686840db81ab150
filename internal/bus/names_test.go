package bus

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// Names of realms and actors are those that these patterns describe.
func TestNames(t *testing.T) {
	t.Parallel()
	realm := regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?$`)
	actor := regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)
	check := func(s string) {
		t.Helper()
		if err := CheckRealm(s); (err == nil) != realm.MatchString(s) {
			t.Errorf("realm %q: %v", s, err)
		}
		if err := CheckActor(s); (err == nil) != actor.MatchString(s) {
			t.Errorf("actor %q: %v", s, err)
		}
	}
	check("")
	for c := range 256 {
		b := string([]byte{byte(c)})
		for _, s := range []string{b, b + "a", "a" + b, "a" + b + "a", b + b} {
			check(s)
		}
	}
	for n := range 70 {
		check(strings.Repeat("a", n))
		check("a" + strings.Repeat("-", n) + "z")
	}
}

// Two finalizers, or the agents of two kinds, never share a consumer: each name is
// that of one finalizer or kind, is a token, and has at most the 255 bytes that NATS
// allows.
func TestDurableNamesAreInjective(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("g", 63)
	names := map[string]string{}
	check := func(durable, of string) {
		t.Helper()
		if other, taken := names[durable]; taken {
			t.Errorf("%s and %s share the consumer %s", of, other, durable)
		}
		names[durable] = of
		if len(durable) > 255 || strings.ContainsAny(durable, ". \t*>/\\") {
			t.Errorf("%s: %q is not the name of a consumer", of, durable)
		}
	}
	// All kinds whose group and plural are made of these letters, up to a length.
	words := []string{""}
	for range 4 {
		for _, w := range words {
			for _, c := range "ab-." {
				words = append(words, w+string(c))
			}
		}
		slices.Sort(words)
		words = slices.Compact(words)
	}
	kinds := 0
	for _, plural := range append(words, "pods", "my-pods", "pods-my") {
		if lifecycle.CheckResource("", plural) != nil {
			continue
		}
		for _, group := range append(words, "example.com", "example.com-my", "my-example.com", "pods.example.com") {
			if lifecycle.CheckResource(group, plural) == nil {
				check(AgentDurable(group, plural), "the agent of "+lifecycle.ResourceName(group, plural))
				kinds++
			}
		}
	}
	if kinds < 100 {
		t.Errorf("only %d kinds were tried", kinds)
	}
	longest := strings.Join([]string{long, long, long[:61]}, ".")
	if resource := lifecycle.ResourceName(longest, long); len(resource) != 253 {
		t.Fatalf("%s has %d bytes: not the longest name of a kind", resource, len(resource))
	}
	check(AgentDurable(longest, long), "the agent of the kind with the longest name")
	for _, f := range []string{"a", "a.b", "a-b", "a_b", "a/b", "a.b/c", "a/b.c", "a/b-c", "a-b/c", "A/b", "a/B", strings.Repeat("a", 253) + "/" + long} {
		check(FinalizerDurable(f), "the finalizer "+f)
	}
}

// Roles of a finalizer and of an agent may use the consumers of these, and no others.
func TestRolesNameTheirConsumers(t *testing.T) {
	t.Parallel()
	for _, roles := range [][2]Role{
		{AgentRole("a", "example.com", "my-pods", "default"), AgentRole("a", "example.com-my", "pods", "default")},
		{FinalizerRole("f", "example.com/a-b", "default"), FinalizerRole("f", "example.com-a/b", "default")},
	} {
		for _, s := range roles[0].Publish {
			if strings.HasPrefix(s, "$JS.") && slices.Contains(roles[1].Publish, s) {
				t.Errorf("%s and %s may both publish to %s", roles[0].About, roles[1].About, s)
			}
		}
	}
	agent := AgentRole("a", "example.com", "my-pods", "default")
	durable := AgentConsumer("default", "example.com", "my-pods").Durable
	for _, s := range []string{PullSubject(FinalizeStream("default"), durable), AckSubjects(FinalizeStream("default"), durable)} {
		if !slices.Contains(agent.Publish, s) {
			t.Errorf("the agent may not publish to %s", s)
		}
	}
}
