package access

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// Table is what the users of a file may do. It does not change, and is safe for concurrent use.
type Table struct {
	users  map[string]*user
	digest string
}

// user is a user of a table.
type user struct {
	realms map[string]*Rules // that rules name
	others *Rules            // of all other realms
}

// Table compiles the file.
func (f *File) Table() *Table {
	t := &Table{users: map[string]*user{}}
	for name, u := range f.Users {
		rules, _ := f.rules(u) // checked by Parse
		of := &user{realms: map[string]*Rules{}}
		compile := func(realm string) *Rules {
			r := &Rules{verbs: map[string]*scope{}, user: u, runs: len(u.Realms) == 0 || slices.Contains(u.Realms, All) || slices.Contains(u.Realms, realm)}
			var added []Rule
			for _, rule := range rules {
				if slices.Contains(rule.Realms, realm) || slices.Contains(rule.Realms, All) || realm == bus.SystemRealm {
					r.add(&rule)
					added = append(added, rule)
				}
			}
			r.digest = digestOf(added)
			return r
		}
		for _, rule := range rules {
			for _, realm := range rule.Realms {
				if of.realms[realm] == nil && realm != All {
					of.realms[realm] = compile(realm)
				}
			}
		}
		of.others = compile(All)
		of.realms[bus.SystemRealm] = compile(bus.SystemRealm) // requests about the list of realms
		t.users[name] = of
	}
	t.digest = digestOf(f)
	return t
}

// digestOf returns 16 hexadecimal digits that identify what v has. It has strings only, and maps are in the order of their keys.
func digestOf(v any) string {
	data, _ := json.Marshal(v)
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// Digest identifies what the table says: 16 hexadecimal digits, equal for files of equal content, whatever their
// comments and their order.
func (t *Table) Digest() string { return t.digest }

// Actor returns the actor of an account. Accounts that are none of a users file have the name of their actor.
func (t *Table) Actor(account string) (actor string) {
	if t != nil {
		if name, is := strings.CutPrefix(account, bus.UsersAccount("")); is && t.users[name] != nil {
			return name
		}
	}
	return account
}

// Of returns what an actor may do in a realm. ok is false if the table does not name the actor: then it may do what
// NATS lets it.
func (t *Table) Of(actor, realm string) (rules *Rules, ok bool) {
	if t == nil || t.users[actor] == nil {
		return nil, false
	}
	u := t.users[actor]
	if rules = u.realms[realm]; rules == nil {
		rules = u.others
	}
	return rules, true
}

// Rules are what a user may do in a realm. nil allows everything.
type Rules struct {
	user   *User
	verbs  map[string]*scope
	digest string
	runs   bool // the finalizers, agents and notices of the user are for this realm, too
}

// None are rules that allow nothing.
func None() *Rules { return &Rules{user: &User{}, digest: digestOf([]Rule(nil))} }

// Digest identifies the rules: equal for equal rules of a user in a realm, whatever the file says of others; empty for nil.
func (r *Rules) Digest() string {
	if r == nil {
		return ""
	}
	return r.digest
}

// scope is where a verb is allowed.
type scope struct {
	all        kindSet // in all namespaces, and for objects without one
	namespaces map[string]*kindSet
	prefixes   []prefixed // of namespaces
}

type prefixed struct {
	prefix string
	kinds  kindSet
}

// kindSet is a set of kinds.
type kindSet struct {
	all    bool // of every group, without ownGroup unless own is set
	own    bool
	groups map[string]bool
	exact  map[string]bool // resources
}

func (k *kindSet) has(resource string) bool {
	if k.exact[resource] {
		return true
	}
	if !k.all && len(k.groups) == 0 {
		return false
	}
	group, _ := lifecycle.SplitResource(resource)
	return k.groups[group] || k.all && (k.own || group != ownGroup)
}

func (k *kindSet) add(patterns []string, own bool) {
	for _, p := range patterns {
		group, isGroup := strings.CutPrefix(p, "*.")
		switch {
		case p == All:
			k.all, k.own = true, k.own || own
		case isGroup:
			if k.groups == nil {
				k.groups = map[string]bool{}
			}
			k.groups[group] = true
		default:
			if k.exact == nil {
				k.exact = map[string]bool{}
			}
			k.exact[p] = true
		}
	}
}

func (r *Rules) add(rule *Rule) {
	for _, v := range rule.Verbs {
		s := r.verbs[v]
		if s == nil {
			s = &scope{namespaces: map[string]*kindSet{}}
			r.verbs[v] = s
		}
		own := slices.Contains(reading, v)
		for _, ns := range rule.Namespaces {
			prefix, isPattern := strings.CutSuffix(ns, All)
			switch {
			case ns == All:
				s.all.add(rule.Kinds, own)
			case isPattern:
				p := prefixed{prefix: prefix}
				p.kinds.add(rule.Kinds, own)
				s.prefixes = append(s.prefixes, p)
			default:
				if ns == Cluster {
					ns = ""
				}
				if s.namespaces[ns] == nil {
					s.namespaces[ns] = &kindSet{}
				}
				s.namespaces[ns].add(rule.Kinds, own)
			}
		}
	}
}

// May reports whether a verb is allowed about objects of a resource, such as deployments.apps, in a namespace; "" for
// objects without one.
func (r *Rules) May(verb, resource, namespace string) bool {
	if r == nil {
		return true
	}
	s := r.verbs[verb]
	if s == nil {
		return false
	}
	if s.all.has(resource) {
		return true
	}
	if k := s.namespaces[namespace]; k != nil && k.has(resource) {
		return true
	}
	for i := range s.prefixes {
		if p := &s.prefixes[i]; strings.HasPrefix(namespace, p.prefix) && p.kinds.has(resource) {
			return true
		}
	}
	return false
}

// MayEverywhere reports whether a verb is allowed about objects of a resource in all namespaces.
func (r *Rules) MayEverywhere(verb, resource string) bool {
	return r == nil || r.verbs[verb] != nil && r.verbs[verb].all.has(resource)
}

// MayAll reports whether a verb is allowed about all objects of the realm.
func (r *Rules) MayAll(verb string) bool {
	return r == nil || r.verbs[verb] != nil && r.verbs[verb].all.all
}

// MayBlock reports whether a reference with blockOwnerDeletion is allowed to objects of a resource in a namespace, because the user
// may delete them, or block their deletion. "" is a kind that is not registered, of which it is not known whether it will have namespaces.
func (r *Rules) MayBlock(resource, namespace string) bool {
	for _, verb := range []string{bus.VerbDelete, BlockOwner} {
		if resource == "" && r.MayAll(verb) || resource != "" && r.May(verb, resource, namespace) {
			return true
		}
	}
	return false
}

// MayAnything reports whether any verb is allowed.
func (r *Rules) MayAnything() bool { return r == nil || len(r.verbs) > 0 }

// MaySome reports whether a verb is allowed about any objects.
func (r *Rules) MaySome(verb string) bool { return r == nil || r.verbs[verb] != nil }

// MaySomewhere reports whether a verb is allowed about objects of a resource in any namespace.
func (r *Rules) MaySomewhere(verb, resource string) bool {
	if r == nil {
		return true
	}
	s := r.verbs[verb]
	if s == nil {
		return false
	}
	for _, k := range s.namespaces {
		if k.has(resource) {
			return true
		}
	}
	return s.all.has(resource) || slices.ContainsFunc(s.prefixes, func(p prefixed) bool { return p.kinds.has(resource) })
}

// Runs reports whether the user's programs run a finalizer.
func (r *Rules) Runs(finalizer string) bool {
	return r == nil || r.runs && slices.Contains(r.user.Finalizers, finalizer)
}

// AnswersNotices reports whether the user's programs answer the notices of expiry policies that call a name.
func (r *Rules) AnswersNotices(name string) bool {
	return r == nil || r.runs && slices.Contains(r.user.Notices, name)
}

// Ends reports whether the user's programs are agents of a kind.
func (r *Rules) Ends(resource string) bool {
	return r == nil || r.runs && slices.Contains(r.user.Agents, resource)
}

// Allows reports whether the rules allow what the subject of a request says. namespaced says that
// the resource has a namespace: a subject without one then means all of them.
func (r *Rules) Allows(at bus.API, namespaced bool) bool {
	if r == nil {
		return true
	}
	resource := lifecycle.ResourceName(at.Group, at.Plural)
	switch {
	case at.Verb == bus.VerbConsumeFinalizer:
		return r.Runs(at.Finalizer)
	case at.Verb == bus.VerbConsumeExpiry:
		return r.AnswersNotices(at.Finalizer)
	case at.Verb == bus.VerbConsumeAgent:
		return r.Ends(resource)
	case at.Verb == bus.VerbRemoveFinalizer && r.Runs(at.Finalizer):
		return true
	case at.Plural == "" && at.Namespace == "": // about the realm, or what is allowed of it
		return r.MaySome(at.Verb)
	case at.Plural == "": // all kinds of a namespace
		return r.MaySome(at.Verb)
	case at.Namespace == "" && namespaced:
		return r.MayEverywhere(at.Verb, resource)
	}
	return r.May(at.Verb, resource, at.Namespace)
}

// Sees reports whether replies may have an object, of which the log is a part.
func (r *Rules) Sees(resource, namespace string) bool {
	return r == nil || r.May(bus.VerbGet, resource, namespace)
}

// SeesAll reports whether replies may have all objects.
func (r *Rules) SeesAll() bool {
	return r == nil || r.verbs[bus.VerbGet] != nil && r.verbs[bus.VerbGet].all.all
}
