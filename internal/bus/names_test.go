package bus

import (
	"regexp"
	"strings"
	"testing"
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
