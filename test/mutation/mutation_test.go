package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/test/internal/module"
)

// Every mutant applies to its file. The command shows that the tests detect it.
func TestMutantsApply(t *testing.T) {
	t.Parallel()
	root, err := module.Root()
	must.Succeed(t, err)
	all, err := mutants()
	must.Succeed(t, err)
	if len(all) < 40 {
		t.Errorf("%d mutants", len(all))
	}
	seen := map[string]bool{}
	for _, m := range all {
		if seen[m.name] {
			t.Errorf("%s is there twice", m.name)
		}
		seen[m.name] = true
		src, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(pkg), m.file))
		if err != nil {
			t.Error(err)
			continue
		}
		if changed, err := m.apply(string(src)); err != nil || changed == string(src) {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	const src = "a\n\tb\n\tc\n\tb\n"
	for text, want := range map[string]string{
		"A1.1: x\nf.go\n-\tc\n+\td":        "a\n\tb\n\td\n\tb\n",
		"A1.1: x\nf.go\n \tc\n-\tb\n+\td":  "a\n\tb\n\tc\n\td\n",
		"A1.1: x\nf.go\n-\tc":              "a\n\tb\n\tb\n",
		"A1.1: x\nf.go\n-\tb\n+\td":        "occurs 2 times",
		"A1.1: x\nf.go\n-\tx\n+\td":        "occurs 0 times",
		"A1.1: x\nf.go\n \tc":              "nothing changes",
		"A1.1: x\nf.go\nc":                 "begins neither",
		"without an id\nf.go\n-\tc\n+\tdd": "a mutant is an id",
	} {
		m, err := parse(text)
		got := ""
		if err == nil {
			got, err = m.apply(src)
		}
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%q makes %q, want %q", text, got, want)
		}
	}
}
