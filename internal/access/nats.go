package access

import (
	"maps"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// NATSRoles returns the roles of the users, whose permissions NATS enforces, ordered by name.
func (f *File) NATSRoles() []bus.Role {
	var list []bus.Role
	for _, name := range slices.Sorted(maps.Keys(f.Users)) {
		u := f.Users[name]
		rules, _ := f.rules(u) // checked by Parse
		p := patterns{f: f, user: name, allow: map[string]bool{}, deny: map[string]bool{}}
		for i := range rules {
			p.add(&rules[i])
		}
		p.exclude(rules)
		p.fields(u)
		about := u.About
		if about == "" {
			about = summary(u)
		}
		r := bus.UserRole(name, oneLine(about), p.sorted(), slices.Sorted(maps.Keys(p.deny)))
		r.Login.NKey = u.NKey
		if u.Password != nil {
			r.Login.Variable, r.Login.Hash = u.Password.Variable, u.Password.Hash
		}
		list = append(list, r)
	}
	return list
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// summary names the roles and fields of a user.
func summary(u *User) string {
	parts := slices.Clone(u.Roles)
	if len(u.May) > 0 {
		parts = append(parts, "rules of its own")
	}
	for _, of := range []struct {
		what  string
		names []string
	}{{"finalizers", u.Finalizers}, {"agent of", u.Agents}, {"answers notices as", u.Notices}} {
		if len(of.names) > 0 {
			parts = append(parts, of.what+" "+strings.Join(of.names, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// patterns are the subjects to which a user may publish.
type patterns struct {
	f           *File
	user        string
	allow, deny map[string]bool
}

func (p *patterns) add(r *Rule) {
	kinds, namespaces := kindTokens(r.Kinds), p.f.namespaceTokens(r.Namespaces)
	for _, realm := range r.Realms {
		for _, verb := range r.Verbs {
			switch {
			case verb == BlockOwner:
				continue
			case slices.Contains(aboutRealm, verb) || slices.Contains(filtered, verb):
				of := realm
				if verb == bus.VerbListRealms {
					of = bus.SystemRealm
				}
				p.allow[bus.RealmAPI(of, p.user, verb).Subject()] = true
				continue
			case verb == bus.VerbReadWarnings || verb == bus.VerbReadPast: // also about the realm
				p.allow[bus.RealmAPI(realm, p.user, verb).Subject()] = true
			}
			for _, kind := range kinds {
				for _, ns := range namespaces {
					p.allow[subject(realm, p.user, verb, kind, ns)] = true
				}
			}
		}
	}
}

// subject returns the pattern of requests about a kind in a namespace. kind has two tokens.
func subject(realm, user, verb, kind, namespace string) string {
	s := strings.Join([]string{strings.TrimSuffix(bus.RealmAPI(realm, user, verb).Subject(), "._._._"), kind, namespace}, ".")
	if bus.NamesFinalizer(verb) {
		s += ".>"
	}
	return s
}

func kindTokens(kinds []string) (list []string) {
	for _, k := range kinds {
		if k == All {
			list = append(list, "*.*")
			continue
		}
		if group, is := strings.CutPrefix(k, "*."); is {
			list = append(list, bus.GroupToken(group)+".*")
			continue
		}
		group, plural := lifecycle.SplitResource(k)
		list = append(list, bus.GroupToken(group)+"."+plural)
	}
	return list
}

// namespaceTokens returns the tokens of namespaces: patterns stand for the namespaces that the file lists.
func (f *File) namespaceTokens(namespaces []string) (list []string) {
	for _, ns := range namespaces {
		prefix, isPattern := strings.CutSuffix(ns, All)
		if !isPattern || prefix == "" {
			list = append(list, ns)
			continue
		}
		for _, of := range f.Namespaces {
			if strings.HasPrefix(of, prefix) {
				list = append(list, of)
			}
		}
	}
	return list
}

// exclude denies what * does not stand for: to write kinds of ownGroup. NATS cannot express all of it where realms
// differ; the graph service does.
func (p *patterns) exclude(rules []Rule) {
	own := []string{"kinds"}
	for _, k := range lifecycle.BuiltinKinds() {
		if k.Group == ownGroup {
			own = append(own, k.Plural)
		}
	}
	named := map[string]bool{} // verb and plural that rules allow by name, in any realm
	for i := range rules {
		for _, kind := range rules[i].Kinds {
			group, plural := lifecycle.SplitResource(strings.TrimPrefix(kind, "*."))
			if kind == "*."+ownGroup {
				group, plural = ownGroup, All
			}
			if group == ownGroup {
				for _, verb := range rules[i].Verbs {
					named[verb+" "+plural], named[verb] = true, true
				}
			}
		}
	}
	for i := range rules {
		if !slices.Contains(rules[i].Kinds, All) {
			continue
		}
		for _, realm := range rules[i].Realms {
			for _, verb := range rules[i].Verbs {
				if slices.Contains(reading, verb) || !bus.NamesType(verb) || named[verb+" "+All] {
					continue
				}
				if !named[verb] {
					p.deny[subject(realm, p.user, verb, bus.GroupToken(ownGroup)+".*", "*")] = true
					continue
				}
				for _, plural := range own {
					if !named[verb+" "+plural] {
						p.deny[subject(realm, p.user, verb, bus.GroupToken(ownGroup)+"."+plural, "*")] = true
					}
				}
			}
		}
	}
}

// fields adds what comes with finalizers, agents and notices: their consumers, and the removal of the finalizers.
func (p *patterns) fields(u *User) {
	realms := or(nil, u.Realms)
	add := func(r bus.Role) {
		for _, s := range r.Publish {
			switch bus.RequestName(s) {
			case bus.VerbGet, bus.VerbResolve, bus.VerbPlan, bus.VerbDelete, bus.VerbVeto: // rules allow these
			default:
				p.allow[s] = true
			}
		}
	}
	for _, name := range u.Finalizers {
		add(bus.FinalizerRole(p.user, name, realms...))
	}
	for _, resource := range u.Agents {
		group, plural := lifecycle.SplitResource(resource)
		add(bus.AgentRole(p.user, group, plural, realms...))
	}
	for _, name := range u.Notices {
		add(bus.ExpiryRole(p.user, name, realms...))
	}
}

// sorted returns the allowed patterns without those that others cover.
func (p *patterns) sorted() []string {
	var list []string
	for s := range p.allow {
		if !p.covered(s) {
			list = append(list, s)
		}
	}
	slices.Sort(list)
	return list
}

// covered reports whether a wider pattern is allowed.
func (p *patterns) covered(s string) bool {
	t := strings.Split(s, ".")
	if bus.RequestName(s) == "" || len(t) < 8 || t[2] != "api" {
		return false
	}
	const realm, group, plural, namespace = 1, 5, 6, 7
	for wide := 1; wide < 16; wide++ {
		of := slices.Clone(t)
		for bit, i := range []int{realm, group, plural, namespace} {
			if wide&(1<<bit) != 0 && (i != realm || of[i] != bus.SystemRealm) {
				of[i] = "*"
			}
		}
		if joined := strings.Join(of, "."); joined != s && p.allow[joined] {
			return true
		}
		if len(t) > 8 && p.allow[strings.Join(append(slices.Clone(of[:8]), ">"), ".")] && t[8] != ">" {
			return true
		}
	}
	return false
}
