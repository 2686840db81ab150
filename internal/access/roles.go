package access

import (
	"fmt"
	"slices"

	"github.com/coppice-gc/coppice/internal/bus"
)

// roleController is the built-in role of a controller.
const roleController = "controller"

// builtinRoles are the rules of the built-in roles. Rules without kinds, namespaces or realms have those of the user.
var builtinRoles = map[string][]Rule{
	bus.RoleApplication: {{Verbs: []string{"read", "write"}}},
	roleController:      {{Verbs: []string{"read", "write", bus.VerbLease}}},
	bus.RoleFinalizer:   {},
	bus.RoleAgent:       {},
	bus.RoleReader:      {{Verbs: []string{"read", "past", bus.VerbListRealms}}},
	bus.RoleViewer:      {{Verbs: []string{"read", bus.VerbListRealms}}},
	bus.RoleOperator:    {{Verbs: []string{All}}},
}

// registering are the verbs with which applications without limits register kinds.
var registering = []string{bus.VerbCreate, bus.VerbUpdate, bus.VerbUpdateStatus, bus.VerbPatch, bus.VerbApply}

// kindOfKinds is the resource of kinds.
const kindOfKinds = "kinds." + ownGroup

// ownGroup is the group of the kinds that configure a realm. Every user may read them: clients list the kinds first, and explanations
// name policies.
const ownGroup = "coppice.dev"

// rules returns all rules of a user, with the kinds, namespaces and realms of the user in those that have none, and
// verbs that stand for themselves.
func (f *File) rules(u *User) (list []Rule, err error) {
	limited := len(u.Kinds) > 0 && !slices.Contains(u.Kinds, All) || len(u.Namespaces) > 0 && !slices.Contains(u.Namespaces, All)
	add := func(where string, r Rule, own bool) {
		named := len(r.Kinds) > 0 || len(r.Namespaces) > 0
		r.Kinds, r.Namespaces, r.Realms = or(r.Kinds, u.Kinds), or(r.Namespaces, u.Namespaces), or(r.Realms, u.Realms)
		whole := slices.Contains(r.Kinds, All) && slices.Contains(r.Namespaces, All)
		asked := r.Verbs
		if !r.exact {
			r.Verbs = expand(r.Verbs)
		}
		if !whole {
			for _, v := range aboutRealm {
				if slices.Contains(asked, v) && own && err == nil {
					err = fmt.Errorf("%s: %s is about the realm as a whole, and the rule is for some kinds or namespaces: write a rule for it with the kinds and namespaces *", where, v)
				}
			}
			r.Verbs = slices.DeleteFunc(r.Verbs, func(v string) bool { return slices.Contains(aboutRealm, v) })
		}
		if !own && !named && slices.Contains(asked, All) && whole { // an operator configures realms
			r.Kinds = append(slices.Clone(r.Kinds), "*."+ownGroup)
		}
		list = append(list, r)
	}
	for _, name := range u.Roles {
		for i, r := range builtinRoles[name] {
			add(fmt.Sprintf("role %s, rule %d", name, i), r, false)
		}
		for i, r := range f.Roles[name] {
			add(fmt.Sprintf("role %s, rule %d", name, i), r, true)
		}
		if !limited && (name == bus.RoleApplication || name == roleController) {
			add(name, Rule{Verbs: registering, Kinds: []string{kindOfKinds}, Namespaces: []string{All}}, false)
		}
	}
	for i, r := range u.May {
		add(fmt.Sprintf("may[%d]", i), r, true)
	}
	for _, resource := range u.Agents {
		add("agents", Rule{Verbs: []string{bus.VerbGet, bus.VerbResolve, bus.VerbPlan, bus.VerbDelete}, Kinds: []string{resource}, exact: true}, false)
	}
	if len(u.Finalizers) > 0 {
		add("finalizers", Rule{Verbs: []string{bus.VerbGet, bus.VerbResolve}, exact: true}, false)
	}
	if len(u.Notices) > 0 {
		add("notices", Rule{Verbs: []string{bus.VerbGet, bus.VerbVeto}, exact: true}, false)
	}
	list = append(list, Rule{Verbs: []string{bus.VerbGet, bus.VerbList, bus.VerbWatch}, Kinds: []string{"*." + ownGroup}, Namespaces: []string{All}, Realms: or(nil, u.Realms)})
	if slices.ContainsFunc(list, func(r Rule) bool { return slices.Contains(r.Verbs, bus.VerbResolve) }) {
		// Objects of any kind are resolved by uid; the reply has what the user may get.
		list = append(list, Rule{Verbs: []string{bus.VerbResolve}, Kinds: []string{kindOfKinds}, Namespaces: []string{All}, Realms: or(nil, u.Realms)})
	}
	return list, err
}

// or returns the first list that is not empty, and everything if both are.
func or(a, b []string) []string {
	switch {
	case len(a) > 0:
		return a
	case len(b) > 0:
		return b
	}
	return []string{All}
}
