package trust_test

import (
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/internal/access"
)

// allows says by the text of a users file whether a user may request a verb about a kind in a namespace. It is written as the
// documentation has it, without what the services use.
func allows(f *access.File, user, verb, kind, namespace string) bool {
	u := f.Users[user]
	covers := func(patterns, ofUser []string, value string) bool {
		if len(patterns) == 0 {
			patterns = ofUser
		}
		if len(patterns) == 0 {
			return true
		}
		return slices.ContainsFunc(patterns, func(p string) bool {
			switch {
			case p == "*" || p == value || p == "_" && value == "":
				return true
			case strings.HasPrefix(p, "*."):
				return strings.HasSuffix(value, p[1:])
			case strings.HasSuffix(p, "*"):
				return strings.HasPrefix(value, p[:len(p)-1])
			}
			return false
		})
	}
	return slices.ContainsFunc(rulesOf(f, user), func(r access.Rule) bool {
		everywhere := namespace == "" && kind != "nodes" // all namespaces
		ns := namespace
		if everywhere {
			ns = "\x00" // matches * only
		}
		return among(r.Verbs, verb) && covers(r.Kinds, u.Kinds, kind) && covers(r.Namespaces, u.Namespaces, ns)
	})
}

// among reports whether a verb is one of those that a rule names.
func among(verbs []string, v string) bool {
	of := map[string][]string{
		"read": {"get", "list", "watch"}, "write": {"create", "update", "updatestatus", "patch", "apply", "delete", "deletecollection"},
		"past": {"readlog", "readpast"},
	}
	return slices.ContainsFunc(verbs, func(name string) bool {
		if name == v || slices.Contains(of[name], v) {
			return true
		}
		gets := name == "get" || name == "read"
		return gets && slices.Contains([]string{"resolve", "plan", "readwarnings", "readlog", "listparked", "listfinalizers", "listconsumers", "status", "brakes", "watchgraph"}, v)
	})
}

// rulesOf returns the rules of a user, with those of its roles.
func rulesOf(f *access.File, user string) []access.Rule {
	u := f.Users[user]
	rules := slices.Clone(u.May)
	for _, role := range u.Roles {
		rules = append(rules, f.Roles[role]...)
		switch role {
		case "viewer":
			rules = append(rules, access.Rule{Verbs: []string{"read"}})
		case "reader":
			rules = append(rules, access.Rule{Verbs: []string{"read", "past"}})
		case "application":
			rules = append(rules, access.Rule{Verbs: []string{"read", "write"}})
		}
	}
	return rules
}
