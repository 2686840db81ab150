package main

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

const head = `# Conformance

Which test shows which rule of [semantics.md](semantics.md) (A) and which of its properties (S, L, R), which scenario of
Kubernetes' own tests of its garbage collector, registry and end-to-end suite (C), and which case that Kubernetes gets wrong
(X). Every test named here passes.

This page is generated from the tests by ` + "`make conformance`" + `; a test says itself what it shows, and CI fails if the page
says something else, or if an id is missing.

- **passes**: the tests named show it. They would fail without it.
- **passes in part**: the same, but for what is said.
- **gateway**: it exists only on HTTP, and belongs to the Kubernetes-style gateway.
- **no counterpart**: a detail of Kubernetes' informers, caches, discovery or debugging that Coppice does not have.
- **open**: not shown yet.

`

var results = []struct{ remark, name string }{
	{"", "passes"}, {partly, "passes in part"}, {gateway, "gateway"}, {none, "no counterpart"}, {open, "open"},
}

func nameOf(remark string) string {
	for _, r := range results {
		if r.remark == remark {
			return r.name
		}
	}
	return remark
}

// render writes the page, or says what the catalogue and the tests disagree about.
func render(catalogue []section, citations []citation) ([]byte, error) {
	shown := map[string][]citation{}
	for _, c := range citations {
		shown[c.ID] = append(shown[c.ID], c)
	}
	var wrong []error
	counts := map[string]int{}
	tables := &strings.Builder{}
	for _, s := range catalogue {
		_, _ = fmt.Fprintf(tables, "\n## %s\n\n| id | what | result | shown by |\n|---|---|---|---|\n", s.title)
		for _, it := range s.items {
			tests := shown[it.id]
			delete(shown, it.id)
			if err := it.check(tests); err != nil {
				wrong = append(wrong, err)
			}
			counts[it.remark]++
			_, _ = fmt.Fprintf(tables, "| %s | %s | %s | %s |\n", it.id, escaped(it.title), nameOf(it.remark), it.cell(tests))
		}
	}
	for _, c := range citations {
		if _, left := shown[c.ID]; left {
			wrong = append(wrong, fmt.Errorf("%s:%d: there is no behaviour %s", c.File, c.Line, c.ID))
		}
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	var page strings.Builder
	page.WriteString(head)
	page.WriteString("| result | ids |\n|---|---|\n")
	for _, r := range results {
		_, _ = fmt.Fprintf(&page, "| %s | %d |\n", r.name, counts[r.remark])
	}
	page.WriteString(tables.String())
	return []byte(page.String()), nil
}

// check: what is shown needs no excuse, and what is not needs one.
func (it item) check(tests []citation) error {
	if len(tests) == 0 {
		if it.remark == "" || it.remark == partly {
			return fmt.Errorf("%s: no test shows it, and catalogue.txt does not say why", it.id)
		}
		return nil
	}
	if it.remark == none || it.remark == open {
		return fmt.Errorf("%s:%d: shows %s, of which catalogue.txt says %q", tests[0].File, tests[0].Line, it.id, it.remark)
	}
	return nil
}

// cell has one line for each script or test function.
func (it item) cell(tests []citation) string {
	var lines []string
	last := ""
	for _, t := range tests {
		test := fmt.Sprintf("[%s %s](%s)", t.Package, t.Test, path.Join("..", t.File))
		if test == last {
			lines[len(lines)-1] += "; " + escaped(t.Says)
			continue
		}
		last = test
		lines = append(lines, test+": "+escaped(t.Says))
	}
	for _, text := range []string{it.also, it.why} {
		if text != "" {
			lines = append(lines, escaped(text))
		}
	}
	return strings.Join(lines, "<br>")
}

var escaped = strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`).Replace
