// Package selector parses and matches label selectors as kubectl writes them:
//
//	app=web,tier!=db,env in (prod,test),region notin (eu),critical,!legacy
//
// A missing label satisfies != and notin, as in Kubernetes.
package selector

import (
	"fmt"
	"slices"
	"strings"
)

// Selector matches sets of labels. The zero value matches all.
type Selector []requirement

type requirement struct {
	key    string
	op     operator
	values []string
}

type operator uint8

const (
	exists operator = iota
	absent
	in
	notIn
)

// Matches reports whether labels satisfy all requirements.
func (s Selector) Matches(labels map[string]string) bool {
	for _, r := range s {
		v, ok := labels[r.key]
		switch r.op {
		case exists:
			if !ok {
				return false
			}
		case absent:
			if ok {
				return false
			}
		case in:
			if !ok || !slices.Contains(r.values, v) {
				return false
			}
		case notIn:
			if ok && slices.Contains(r.values, v) {
				return false
			}
		}
	}
	return true
}

// Parse reads a selector.
func Parse(text string) (Selector, error) {
	var s Selector
	for rest := strings.TrimSpace(text); rest != ""; {
		var term string
		term, rest = cut(rest)
		r, err := parse(strings.TrimSpace(term))
		if err != nil {
			return nil, fmt.Errorf("label selector %q: %w", text, err)
		}
		s = append(s, r)
		rest = strings.TrimSpace(rest)
		if rest != "" {
			if rest = strings.TrimSpace(rest[1:]); rest == "" {
				return nil, fmt.Errorf("label selector %q: nothing follows the last comma", text)
			}
		}
	}
	return s, nil
}

// cut splits at the first comma outside of parentheses, which rest keeps.
func cut(text string) (term, rest string) {
	depth := 0
	for i, c := range text {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth <= 0:
			return text[:i], text[i:]
		}
	}
	return text, ""
}

func parse(term string) (requirement, error) {
	if key, ok := strings.CutPrefix(term, "!"); ok {
		return checked(requirement{key: strings.TrimSpace(key), op: absent})
	}
	for _, f := range []struct {
		sign string
		op   operator
	}{{"!=", notIn}, {"==", in}, {"=", in}} {
		if key, value, ok := strings.Cut(term, f.sign); ok {
			return checked(requirement{strings.TrimSpace(key), f.op, []string{strings.TrimSpace(value)}})
		}
	}
	if i := strings.IndexByte(term, '('); i >= 0 {
		words := strings.Fields(term[:i])
		list, closed := strings.CutSuffix(term[i+1:], ")")
		if len(words) != 2 || words[1] != "in" && words[1] != "notin" || !closed {
			return requirement{}, fmt.Errorf("%q is not of the form \"key in (a,b)\" or \"key notin (a,b)\"", term)
		}
		r := requirement{key: words[0], op: in}
		if words[1] == "notin" {
			r.op = notIn
		}
		for v := range strings.SplitSeq(list, ",") {
			r.values = append(r.values, strings.TrimSpace(v))
		}
		return checked(r)
	}
	return checked(requirement{key: term, op: exists})
}

func checked(r requirement) (requirement, error) {
	if r.key == "" || strings.ContainsAny(r.key, " \t()=!,<>") {
		return r, fmt.Errorf("%q is not the key of a label", r.key)
	}
	for _, v := range r.values {
		if strings.ContainsAny(v, " \t()=!,<>") {
			return r, fmt.Errorf("%q is not the value of a label", v)
		}
	}
	return r, nil
}
