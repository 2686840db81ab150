package main

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
)

const head = `# Conformance

This page names the tests of each rule of [semantics.md](semantics.md) (A: rules of Kubernetes, B: rules that Kubernetes does not have, from
B2 on), of its properties (S, L, R), of each scenario of Kubernetes' own tests of its garbage collector, registry and end-to-end suite (C), and of
cases that Kubernetes gets wrong (X). Every test named here passes. Terms are in the [glossary](glossary.md).

` + "`make conformance`" + ` generates the page from comments in the tests. CI fails if the page is out of date, or if an id is missing.

Of each rule it has the result, and the tests that show it. The comments in a test say what it shows of which rule.

- **passes**: the tests named show it. They would fail without it.
- **passes in part**: the same, except for what is said.
- **gateway**: it exists only in HTTP, and belongs to the Kubernetes API gateway.
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

// render writes the page, or returns the contradictions between the catalogue and the
// tests.
func render(catalogue []section, citations []citation) ([]byte, error) {
	shown := map[string][]citation{}
	for _, c := range citations {
		shown[c.ID] = append(shown[c.ID], c)
	}
	var wrong []error
	summary, details := &strings.Builder{}, &strings.Builder{}
	total := map[string]int{}
	for _, s := range catalogue {
		_, _ = fmt.Fprintf(details, "\n## %s\n\n| rule | result | tests |\n|---|---|---|\n", s.title)
		counts := map[string]int{}
		for _, it := range s.items {
			tests := shown[it.id]
			delete(shown, it.id)
			if err := it.check(tests); err != nil {
				wrong = append(wrong, err)
			}
			counts[it.remark]++
			total[it.remark]++
			it.write(details, tests)
		}
		row(summary, fmt.Sprintf("[%s](#%s)", s.title, anchor(s.title)), counts)
	}
	row(summary, "**all**", total)
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
	page.WriteString("| section |")
	for _, r := range results {
		page.WriteString(" " + r.name + " |")
	}
	page.WriteString("\n|---" + strings.Repeat("|---", len(results)) + "|\n")
	page.WriteString(summary.String())
	page.WriteString(details.String())
	return []byte(page.String()), nil
}

// check returns an error for an id that has both a test and a remark, or neither.
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

// row writes a row of the summary.
func row(w *strings.Builder, name string, counts map[string]int) {
	_, _ = fmt.Fprintf(w, "| %s |", name)
	for _, r := range results {
		_, _ = fmt.Fprintf(w, " %d |", counts[r.remark])
	}
	w.WriteString("\n")
}

// write writes the row of an item: its id and rule, the result, and links to the scripts and test
// functions that show it.
func (it item) write(w *strings.Builder, tests []citation) {
	result := nameOf(it.remark)
	for _, text := range []string{it.why, it.also} {
		if text != "" {
			result += ". " + text
		}
	}
	var links []string
	for _, t := range tests {
		link := fmt.Sprintf("[%s %s](%s)", path.Base(t.Package), t.Test, path.Join("..", t.File))
		if !slices.Contains(links, link) {
			links = append(links, link)
		}
	}
	_, _ = fmt.Fprintf(w, "| **%s** %s | %s | %s |\n", it.id, escaped(it.title), escaped(result), strings.Join(links, ", "))
}

// anchor returns the anchor that GitHub gives a heading.
func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		default:
			return -1
		}
	}, title)
}

var escaped = strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`).Replace
