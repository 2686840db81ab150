package cli

import "testing"

func TestDidYouMean(t *testing.T) {
	t.Parallel()
	words := []string{"pods", "pod", "deployments", "deployments.apps", "services", "nodes", ""}
	for word, want := range map[string]string{
		"deploymens": "; did you mean deployments?",
		"deplyo":     "", // too far
		"deploymets": "; did you mean deployments?",
		"opds":       "; did you mean pods?",
		"serv":       "; did you mean services?",
		"widgets":    "",
		"x":          "",
		"crd":        "", // no letter in common with pod but the last
	} {
		if got := DidYouMean(word, words); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"get", "gte", 1}, {"kitten", "sitting", 3}, {"größe", "grosse", 3}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q, %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
