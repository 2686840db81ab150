package access_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/access"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

func parse(t *testing.T, text string) *access.File {
	t.Helper()
	f, err := access.Parse("users.yaml", []byte(text))
	must.Succeed(t, err)
	return f
}

const example = `
version: 1
namespaces: [shop, team-a, team-b]
roles:
  developer:
    - verbs: [read, create, update, patch, delete]
      kinds: [deployments.apps, configmaps, "*.example.com"]
users:
  shop:
    roles: [developer]
    namespaces: [shop, team-*]
  viewer1:
    roles: [viewer]
    realms: [default]
  auditor:
    may:
      - verbs: [past, listrealms]
  bucket:
    roles: [finalizer]
    finalizers: [example.com/bucket]
  boss:
    roles: [operator]
  app:
    roles: [application]
  nodes:
    may:
      - {verbs: [get, list], kinds: [nodes], namespaces: [_]}
      - {verbs: [write], kinds: [protectionpolicies.coppice.dev]}
      - {verbs: [create, releasebrake]}
  blocks: {may: [{verbs: [blockowner], kinds: [nodes], namespaces: [_]}]}
`

func TestRules(t *testing.T) {
	t.Parallel()
	table := parse(t, example).Table()
	for _, c := range []struct {
		user, verb, resource, namespace string
		want                            bool
	}{
		{"shop", "create", "deployments.apps", "shop", true},
		{"shop", "create", "deployments.apps", "team-z", true}, // NATS does not know this namespace, and the table does
		{"shop", "create", "deployments.apps", "teams", false},
		{"shop", "create", "deployments.apps", "", false},
		{"shop", "create", "secrets", "shop", false},
		{"shop", "get", "kinds.coppice.dev", "", true},
		{"shop", "delete", "kinds.coppice.dev", "", false},
		{"shop", "resolve", "configmaps", "team-a", true},
		{"shop", "readlog", "configmaps", "team-a", true},
		{"shop", "readpast", "configmaps", "team-a", false},
		{"shop", "get", "sites.example.com", "shop", true},
		{"shop", "get", "sites.eu.example.com", "shop", false},
		{"viewer1", "get", "secrets", "prod", true},
		{"viewer1", "create", "secrets", "prod", false},
		{"auditor", "readpast", "secrets", "prod", true},
		{"auditor", "get", "secrets", "prod", false},
		{"boss", "deletecollection", "kinds.coppice.dev", "", true},
		{"boss", "verify", "", "", true},
		{"app", "create", "kinds.coppice.dev", "", true},
		{"app", "delete", "kinds.coppice.dev", "", false},
		{"app", "create", "protectionpolicies.coppice.dev", "", false},
		{"app", "delete", "pods", "shop", true},
		{"nodes", "get", "nodes", "", true},
		{"nodes", "get", "nodes", "shop", false},
		{"nodes", "patch", "protectionpolicies.coppice.dev", "", true},
		{"nodes", "create", "realms.coppice.dev", "", false},
	} {
		rules, named := table.Of(c.user, bus.DefaultRealm)
		if got := named && rules.May(c.verb, c.resource, c.namespace); got != c.want {
			t.Errorf("%s %s %s in %q: %t", c.user, c.verb, c.resource, c.namespace, got)
		}
	}
	if rules, _ := table.Of("viewer1", "other"); rules.May("get", "secrets", "prod") || rules.MayAnything() {
		t.Error("viewer1 may read another realm")
	}
	if _, named := table.Of("nobody", bus.DefaultRealm); named {
		t.Error("a user that the file does not name is in the table")
	}
	if got := table.Actor("users.shop"); got != "shop" {
		t.Errorf("the actor of users.shop is %q", got)
	}
	if got := table.Actor("users.nobody"); got != "users.nobody" {
		t.Errorf("the actor of users.nobody is %q", got)
	}
}

// What NATS allows and what the table allows is the same, for every subject that names a kind and a namespace, apart from
// namespaces that the file does not list.
// A user may block the deletion of an owner that it may delete, or has the verb blockowner for.
func TestMayBlock(t *testing.T) {
	t.Parallel()
	table := parse(t, example).Table()
	for _, c := range []struct {
		user, resource, namespace string
		want                      bool
	}{
		{"shop", "deployments.apps", "shop", true},
		{"shop", "deployments.apps", "prod", false},
		{"shop", "deployments.apps", "", false},
		{"shop", "secrets", "shop", false},
		{"shop", "", "shop", false}, // a kind that is not registered
		{"viewer1", "secrets", "shop", false},
		{"app", "nodes", "", true},
		{"app", "", "", true},
		{"boss", "kinds.coppice.dev", "", true},
		{"nodes", "nodes", "", false},
		{"blocks", "nodes", "", true},
		{"blocks", "nodes", "shop", false},
	} {
		rules, ok := table.Of(c.user, "default")
		if !ok || rules.MayBlock(c.resource, c.namespace) != c.want {
			t.Errorf("%s may block %q in %q: want %t", c.user, c.resource, c.namespace, c.want)
		}
	}
	var all *access.Rules
	if !all.MayBlock("nodes", "") || !all.MayBlock("", "") {
		t.Error("an actor without rules may not block")
	}
}

func TestNATSAndTableAgree(t *testing.T) {
	t.Parallel()
	f := parse(t, example)
	table := f.Table()
	for _, role := range f.NATSRoles() {
		for _, realm := range []string{bus.DefaultRealm, "other"} {
			rules, _ := table.Of(role.Name, realm)
			for _, verb := range bus.Verbs() {
				if !bus.NamesType(verb) || bus.NamesFinalizer(verb) || verb == bus.VerbConsumeAgent {
					continue
				}
				for _, kind := range []string{"pods", "secrets", "deployments.apps", "sites.example.com", "nodes", "kinds.coppice.dev", "realms.coppice.dev", "protectionpolicies.coppice.dev"} {
					for _, ns := range []string{"", "shop", "team-a", "prod"} {
						plural, group, _ := strings.Cut(kind, ".")
						at := bus.API{Realm: realm, Actor: role.Name, Verb: verb, Group: group, Plural: plural, Namespace: ns}
						nats := slices.ContainsFunc(role.Publish, func(p string) bool { return matches(p, at.Subject()) }) &&
							!slices.ContainsFunc(role.Deny, func(p string) bool { return matches(p, at.Subject()) })
						if want := rules.Allows(at, false); nats != want {
							t.Errorf("%s: NATS %t, the table %t", at.Subject(), nats, want)
						}
					}
				}
			}
		}
	}
}

// matches reports whether a subject matches a pattern.
func matches(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range p {
		switch {
		case token == ">":
			return len(s) > i
		case i >= len(s) || token != "*" && token != s[i]:
			return false
		}
	}
	return len(p) == len(s)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                           "it is empty",
		"version: 2":                 "version: 2 is not a version",
		"version: 1\nusers: {}":      "name at least one user",
		"version: 1\nusers: {a: {}}": "users.a: the user may do nothing",
		"version: 1\nusers: {a: }":   "users.a: it is empty",
		"version: 1\nusers: {graph: {roles: [viewer]}}":                                "service of Coppice",
		"version: 1\nusers: {a: {roles: [x]}}":                                         `there is no role "x"`,
		"version: 1\nusers: {a: {role: [viewer]}}":                                     "field role not found",
		"version: 1\nusers: {a: {may: [{verbs: [fly]}]}}":                              `"fly" is not a verb`,
		"version: 1\nusers: {a: {may: [{verbs: [consumeagent]}]}}":                     "comes with the fields",
		"version: 1\nusers: {a: {may: [{verbs: []}]}}":                                 "verbs: it is empty",
		"version: 1\nusers: {a: {may: [{verbs: [get], kinds: [A]}]}}":                  "is not a kind",
		"version: 1\nusers: {a: {may: [{verbs: [get], namespaces: [A]}]}}":             "is not the name of a namespace",
		"version: 1\nusers: {a: {may: [{verbs: [get], namespaces: [a-*]}]}}":           "matches none of the namespaces",
		"version: 1\nusers: {a: {may: [{verbs: [get], realms: [A]}]}}":                 "is not the name of a realm",
		"version: 1\nusers: {a: {may: [{verbs: [verify], namespaces: [a]}]}}":          "about the realm as a whole",
		"version: 1\nusers: {a: {roles: [finalizer]}}":                                 "needs finalizers",
		"version: 1\nusers: {a: {roles: [viewer], password: {hash: secret}}}":          "is not a bcrypt hash",
		"version: 1\nusers: {a: {roles: [viewer], password: {}}}":                      "either variable or hash",
		"version: 1\nusers: {a: {roles: [viewer], nkey: SUAB}}":                        "public key of a user",
		"version: 1\nusers: {a-b: {roles: [viewer]}, a_b: {roles: [viewer]}}":          "too much like",
		"version: 1\nroles: {viewer: [{verbs: [get]}]}\nusers: {a: {roles: [viewer]}}": "a built-in role has this name",
		"version: 1\nusers: {a: {roles: [viewer]}}\n---\nversion: 1":                   "several documents",
		"version: 1\nusers: {a: {roles: [viewer]}, a: {roles: [operator]}}":            "already defined",
		"version: 1\nusers: {a: {finalizers: [foregroundDeletion]}}":                   "is built in",
		"version: 1\nusers: {'a.b': {roles: [viewer]}}":                                "is not the name of an actor",
		"version: 1\nusers: {a: {may: [{verbs: [get], kinds: ['*.']}]}}":               "names no group",
		"version: 1\nnamespaces: ['*']\nusers: {a: {roles: [viewer]}}":                 "is not the name of a namespace",
		"version: 1\nusers: {a: {roles: [viewer], password: {variable: 'a b'}}}":       "is not the name of a variable",
		"version: 1\nusers: {a: {roles: [viewer], agents: ['*']}}":                     "agents[0]",
		"version: 1\nusers: {a: {roles: [reader], namespaces: []}}":                    "line 2: namespaces: it is empty",
		"version: 1\nusers: {a: {roles: [reader], namespaces: ~}}":                     "line 2: namespaces: it is empty",
		"version: 1\nusers: {a: {roles: [reader], kinds: null}}":                       "line 2: kinds: it is empty",
		"version: 1\nusers: {a: &x {roles: [reader]}, b: *x}":                          "no anchors",
		"version: 1\nusers: {a: {<<: {roles: [operator]}}}":                            "no anchors",
		"version: 1\nusers: {a: {roles: [agent]}}":                                     "needs agents",
		"version: 1\nusers: {a: {roles: [viewer], notices: ['x y']}}":                  "notices[0]",
	} {
		_, err := access.Parse("users.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}

// BenchmarkMay measures a check with 1,000 rules.
func BenchmarkMay(b *testing.B) {
	text := "version: 1\nusers:\n  shop:\n    may:\n"
	for i := range 1000 {
		text += fmt.Sprintf("    - {verbs: [read, write], kinds: [k%d.example.com], namespaces: [ns-%d]}\n", i%50, i)
	}
	f, err := access.Parse("users.yaml", []byte(text))
	must.Succeed(b, err)
	rules, _ := f.Table().Of("shop", bus.DefaultRealm)
	for b.Loop() {
		if !rules.May("create", "k49.example.com", "ns-999") || rules.May("create", "k1.example.com", "ns-999") {
			b.Fatal("wrong")
		}
	}
}
