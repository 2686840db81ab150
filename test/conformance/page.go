package main

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"
)

const head = `# Conformance

This page names the tests of each rule of [semantics.md](semantics.md) (A: rules of Kubernetes, B: rules that Kubernetes does not have, from
B2 on), of its properties (S, L, R), of each scenario of Kubernetes' own tests of its garbage collector, registry and end-to-end suite (C), and of
cases that Kubernetes gets wrong (X). Every test named here passes. Terms are in the [glossary](glossary.md).

` + "`make conformance`" + ` generates the page from comments in the tests. CI fails if the page is out of date, or if an id is missing.

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
		_, _ = fmt.Fprintf(details, "\n## %s\n", s.title)
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

// write writes an item: its rule, and a list of the scripts and test functions that show
// it.
func (it item) write(w *strings.Builder, tests []citation) {
	w.WriteString("\n" + wrapped(fmt.Sprintf("**%s** (%s). %s", it.id, nameOf(it.remark), escaped(it.title)), "") + "\n")
	if len(tests) > 0 || it.also != "" || it.why != "" {
		w.WriteString("\n")
	}
	point := func(text string) { w.WriteString(wrapped("- "+text, "  ") + "\n") }
	for i := 0; i < len(tests); {
		t := tests[i]
		says := []string{escaped(t.Says)}
		for i++; i < len(tests) && tests[i].File == t.File && tests[i].Test == t.Test; i++ {
			if tests[i].Says != t.Says { // those of a recording are equal
				says = append(says, escaped(tests[i].Says))
			}
		}
		point(fmt.Sprintf("[%s %s](%s): %s", t.Package, t.Test, path.Join("..", t.File), strings.Join(says, "; ")))
	}
	for _, text := range []string{it.also, it.why} {
		if text != "" {
			point(escaped(text))
		}
	}
}

// width is the maximum length of lines that wrapped writes, unless a word is longer.
const width = 140

// wrapped breaks text into lines, and indents all but the first.
func wrapped(text, indent string) string {
	var b strings.Builder
	length := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case length+1+len(word) > width:
			b.WriteString("\n" + indent)
			length = len(indent)
		default:
			b.WriteString(" ")
			length++
		}
		b.WriteString(word)
		length += len(word)
	}
	return b.String()
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
