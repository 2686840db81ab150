package main

import (
	"io"
	"strings"
	"testing"
)

// The value of a flag is no command, also where a command has sub-commands.
func TestFlagsBeforeCommands(t *testing.T) {
	t.Parallel()
	for line, ok := range map[string]bool{
		"parked --server nats://127.0.0.1:1": true,
		"parked --user operator":             true,
		"parked --user=operator":             true,
		"parked --user operator shwo 1":      false,
		"parked -v shwo 1":                   false,
		"parked show 1 --user operator":      true,
		"gte --user operator":                false,
	} {
		if err := checkCommand(newRoot(strings.NewReader(""), io.Discard, io.Discard), strings.Fields(line)); (err == nil) != ok {
			t.Errorf("coppice %s: %v", line, err)
		}
	}
}

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
	} {
		if got := didYouMean(word, words); got != want {
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
