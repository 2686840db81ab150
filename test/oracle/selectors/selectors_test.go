// Package selectors_test compares label selectors with those of Kubernetes. It is separate
// from package oracle, so that it can be built without an API server.
package selectors_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/coppice-gc/coppice/internal/selector"
)

const draws = 20_000

// parts are the parts of drawn selectors: tokens, spaces, and valid and invalid keys and
// values.
var parts = []string{
	"=", "==", "!=", "!", "(", ")", ",", ">", "<", " ", "\t", "\n", "in", "notin", "in (", "notin (", ") ,", "(a,b)", "()", "(,)", ",,",
	"a", "b", "app", "example.com/x", "Example.com/x", "/x", "x/", "a/b/c", "1", "5", "-5", "+5", "5.0", "9223372036854775807", "9223372036854775808",
	"web", "a_b", "a.b", "-a", "a-", "é", "*", "\"a\"", "'a'", ";", "&", "\xff",
	strings.Repeat("k", 63), strings.Repeat("k", 64), strings.Repeat("p", 253) + "/k", strings.Repeat("p", 254) + "/k",
}

// shapes are whole requirements, so that many selectors are valid.
var shapes = []func(*rand.Rand) string{
	func(r *rand.Rand) string { return word(r) },
	func(r *rand.Rand) string { return "!" + word(r) },
	func(r *rand.Rand) string { return word(r) + pick(r, "=", "==", "!=", " = ", "!= ") + word(r) },
	func(r *rand.Rand) string {
		return word(r) + pick(r, ">", "<", " > ") + pick(r, "1", "5", "007", "x", "")
	},
	func(r *rand.Rand) string {
		list := make([]string, r.IntN(4))
		for i := range list {
			list[i] = pick(r, "", word(r))
		}
		return word(r) + pick(r, " in ", " notin ", " in") + "(" + strings.Join(list, ",") + ")"
	},
}

func pick(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }

func word(r *rand.Rand) string {
	return pick(r, "a", "b", "app", "example.com/x", "in", "notin", "web", "5")
}

func draw(r *rand.Rand) string {
	var b strings.Builder
	for i := range 1 + r.IntN(4) {
		if i > 0 {
			b.WriteString(pick(r, ",", " , ", ",\n"))
		}
		b.WriteString(shapes[r.IntN(len(shapes))](r))
	}
	text := b.String()
	switch r.IntN(3) {
	case 0: // as it is
	case 1: // spoiled
		at := r.IntN(len(text) + 1)
		text = text[:at] + pick(r, parts...) + text[min(len(text), at+r.IntN(2)):]
	default: // anything
		b.Reset()
		for range r.IntN(9) {
			b.WriteString(pick(r, parts...))
		}
		text = b.String()
	}
	return text
}

// A selector is accepted if and only if Kubernetes accepts it, and then matches the same
// labels. Only blanks are refused that Kubernetes accepts.
func TestSelectors(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	accepted := 0
	for range draws {
		text := draw(r)
		want, errWant := labels.Parse(text)
		got, err := selector.Parse(text)
		if selector.Blank(text) {
			if err == nil {
				t.Fatalf("%q is accepted", text)
			}
			continue
		}
		if (err == nil) != (errWant == nil) {
			t.Fatalf("%q: %v, in Kubernetes %v", text, err, errWant)
		}
		if err != nil {
			continue
		}
		accepted++
		for range 8 {
			set := labels.Set{}
			for range r.IntN(6) {
				set[word(r)] = pick(r, "", "web", "a", "5", "6", "1", "-5", "x")
			}
			if g, w := got.Matches(set), want.Matches(set); g != w {
				t.Fatalf("%q matches %v: %t, in Kubernetes %t", text, set, g, w)
			}
		}
	}
	if accepted < draws/4 || accepted > draws*3/4 {
		t.Errorf("%d of %d selectors were accepted; draw others", accepted, draws)
	}
}
