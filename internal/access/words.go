package access

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/internal/bus"
)

// Explain writes in words what users can do and what they cannot; all users if none is named.
func (f *File) Explain(w io.Writer, users ...string) error {
	if len(users) == 0 {
		users = slices.Sorted(maps.Keys(f.Users))
	}
	table := f.Table()
	var b strings.Builder
	for i, name := range users {
		u := f.Users[name]
		if u == nil {
			return fmt.Errorf("the file has no user %q; its users are %s", name, strings.Join(slices.Sorted(maps.Keys(f.Users)), ", "))
		}
		if i > 0 {
			b.WriteString("\n")
		}
		f.explain(&b, name, u, table)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (f *File) explain(b *strings.Builder, name string, u *User, table *Table) {
	b.WriteString(name)
	if u.About != "" {
		b.WriteString(": " + oneLine(u.About))
	}
	b.WriteString("\n  proves who it is by " + proof(name, u) + "\n")
	explains, past := false, false
	said := map[string]bool{}
	for _, r := range f.spoken(u) {
		line := "  may " + spokenVerbs(r.Verbs) + " about " + f.where(&r)
		if !said[line] {
			said[line] = true
			b.WriteString(line + "\n")
		}
		past = past || slices.Contains(expand(r.Verbs), bus.VerbReadPast)
		explains = explains || slices.Contains(expand(r.Verbs), bus.VerbResolve)
	}
	if explains {
		b.WriteString("  sees events, warnings, parked work, plans and explanations of the objects that it may get")
		if !past {
			b.WriteString(", without the values that they had before")
		}
		b.WriteString("\n")
	}
	for _, fin := range u.Finalizers {
		fmt.Fprintf(b, "  runs the finalizer %s: it receives its calls, with the objects, secrets among them, in every namespace, and removes it\n", fin)
	}
	of := Rule{Kinds: or(u.Kinds, nil), Namespaces: or(u.Namespaces, nil), Realms: or(u.Realms, nil)}
	if len(u.Finalizers) > 0 {
		b.WriteString("  for this it may get about " + f.where(&of) + "\n")
	}
	for _, kind := range u.Agents {
		fmt.Fprintf(b, "  runs the agent of %s: it receives its calls, with the objects, in every namespace\n", kind)
		own := of
		own.Kinds = []string{kind}
		b.WriteString("  for this it may get, plan, delete about " + f.where(&own) + "\n")
	}
	for _, n := range u.Notices {
		fmt.Fprintf(b, "  answers the notices of expiry policies that call %s\n", n)
	}
	if len(u.Notices) > 0 {
		b.WriteString("  for this it may get, veto about " + f.where(&of) + "\n")
	}
	b.WriteString("  reads the configuration of the realm: kinds, settings, policies\n")
	if no := cannot(table.users[name]); len(no) > 0 {
		b.WriteString("  cannot " + strings.Join(no, "; ") + "\n")
	}
}

// spoken returns the rules of a user in the words of the file: those of its roles and its own.
func (f *File) spoken(u *User) (list []Rule) {
	for _, name := range u.Roles {
		for _, r := range append(slices.Clone(builtinRoles[name]), f.Roles[name]...) {
			r.Kinds, r.Namespaces, r.Realms = or(r.Kinds, u.Kinds), or(r.Namespaces, u.Namespaces), or(r.Realms, u.Realms)
			if !slices.Contains(r.Kinds, All) || !slices.Contains(r.Namespaces, All) {
				r.Verbs = slices.DeleteFunc(slices.Clone(r.Verbs), func(v string) bool { return slices.Contains(aboutRealm, v) })
			}
			list = append(list, r)
		}
	}
	for _, r := range u.May {
		r.Kinds, r.Namespaces, r.Realms = or(r.Kinds, u.Kinds), or(r.Namespaces, u.Namespaces), or(r.Realms, u.Realms)
		list = append(list, r)
	}
	return list
}

// proof says how a user proves who it is.
func proof(name string, u *User) string {
	switch {
	case u.NKey != "":
		return "the nkey " + u.NKey
	case u.Password != nil && u.Password.Hash != "":
		return "the password with the hash in the file"
	case u.Password != nil:
		return "the password in the variable " + u.Password.Variable
	}
	return "its password, in the variable or the file that 'coppice nats-config' names for " + name
}

// where says to what a rule applies.
func (f *File) where(r *Rule) string {
	s := "all kinds"
	if !slices.Contains(r.Kinds, All) {
		var kinds []string
		for _, k := range r.Kinds {
			if group, is := strings.CutPrefix(k, "*."); is {
				k = "all kinds of the group " + group
			}
			kinds = append(kinds, k)
		}
		s = join(kinds)
	} else if writes(r.Verbs) && !slices.Contains(r.Verbs, All) {
		s += " (but those of the group " + ownGroup + " only to read)"
	}
	switch {
	case slices.Contains(r.Namespaces, All):
		s += " in every namespace and without one"
	default:
		var names []string
		for _, ns := range r.Namespaces {
			switch {
			case ns == Cluster:
				ns = "objects without a namespace"
			case strings.HasSuffix(ns, All):
				ns += " (" + strings.Join(f.namespaceTokens([]string{ns}), ", ") + ")"
			}
			names = append(names, ns)
		}
		s += " in " + join(names)
	}
	if !slices.Contains(r.Realms, All) {
		s += ", in realm " + join(r.Realms)
	}
	return s
}

// spokenVerbs returns verbs as a sentence has them.
func spokenVerbs(verbs []string) string {
	if slices.Contains(verbs, All) {
		return "do everything"
	}
	return strings.Join(verbs, ", ")
}

// writes reports whether any of the verbs changes something.
func writes(verbs []string) bool {
	return slices.ContainsFunc(expand(verbs), func(v string) bool {
		return !slices.Contains(reading, v) && !slices.Contains(filtered, v) && !slices.Contains(aboutRealm, v)
	})
}

func join(names []string) string {
	switch n := len(names); n {
	case 0:
		return ""
	case 1:
		return names[0]
	default:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
}

// cannot lists what a security reviewer asks about, and the user can do in no realm.
func cannot(u *user) (no []string) {
	any := func(may func(*Rules) bool) bool {
		for realm, r := range u.realms {
			if realm != bus.SystemRealm && may(r) {
				return true
			}
		}
		return may(u.others)
	}
	some := func(verbs ...string) func(*Rules) bool {
		return func(r *Rules) bool { return slices.ContainsFunc(verbs, r.MaySome) }
	}
	for _, of := range []struct {
		what string
		may  func(*Rules) bool
	}{
		{"change any object", some(append(slices.Clone(groups["write"]), bus.VerbApplyAcross, bus.VerbImport, bus.VerbRestore)...)},
		{"read secrets", func(r *Rules) bool {
			return r.MaySomewhere(bus.VerbGet, "secrets") || r.MaySomewhere(bus.VerbList, "secrets") || r.MaySomewhere(bus.VerbWatch, "secrets") || r.MaySomewhere(bus.VerbReadPast, "secrets")
		}},
		{"read values that objects had before", some(bus.VerbReadPast)},
		{"import objects with a status or a deletion of its choice", some(bus.VerbImport, bus.VerbRestore)},
		{"register or delete kinds", func(r *Rules) bool {
			return r.MaySomewhere(bus.VerbCreate, kindOfKinds) || r.MaySomewhere(bus.VerbApply, kindOfKinds) || r.MaySomewhere(bus.VerbDelete, kindOfKinds)
		}},
		{"change the settings of a realm", func(r *Rules) bool {
			return r.MaySomewhere(bus.VerbUpdate, "realms."+ownGroup) || r.MaySomewhere(bus.VerbPatch, "realms."+ownGroup) || r.MaySomewhere(bus.VerbApply, "realms."+ownGroup)
		}},
		{"protect objects or remove their protection", some(bus.VerbProtect, bus.VerbUnprotect)},
		{"remove finalizers of others", some(bus.VerbForceFinalizer, bus.VerbRemoveFinalizer)},
		{"retry or drop parked work, or release brakes", some(bus.VerbRetryParked, bus.VerbDropParked, bus.VerbReleaseBrake)},
		{"verify, archive or resume a realm", some(bus.VerbVerify, bus.VerbArchive, bus.VerbResume)},
		{"create or delete realms", some(bus.VerbCreateRealm, bus.VerbDeleteRealm)},
	} {
		if !any(of.may) {
			no = append(no, of.what)
		}
	}
	return no
}
