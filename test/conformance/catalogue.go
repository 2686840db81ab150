package main

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// What is to be said of a behaviour alongside the tests that show it.
const (
	gateway = "gateway" // it exists only over HTTP
	none    = "none"    // a detail of Kubernetes without a counterpart here
	open    = "open"    // not shown yet
	partly  = "partly"  // shown, but for what is said
)

// mostNone is how many behaviours may have no counterpart.
const mostNone = 25

//go:embed catalogue.txt
var catalogueText string

type section struct {
	title string
	items []item
}

type item struct {
	id, title string
	remark    string // gateway, none, open, partly, or ""
	why       string
	also      string // what shows it alongside the tests
}

var itemLine = regexp.MustCompile(`^(` + idPattern + `)  +(\S.*)$`)

// parseCatalogue reads catalogue.txt: sections ("## title"), lines of an id and
// what it is about, and below it "  gateway: ...", "  none: ...", and so on, or
// "  also: ..." of what shows it alongside the tests.
func parseCatalogue(text string) ([]section, error) {
	var all []section
	for i, line := range strings.Split(text, "\n") {
		fail := func(what string) error { return fmt.Errorf("catalogue.txt:%d: %s: %q", i+1, what, line) }
		title, isSection := strings.CutPrefix(line, "## ")
		m := itemLine.FindStringSubmatch(line)
		switch {
		case line == "" || strings.HasPrefix(line, "# "):
		case isSection:
			all = append(all, section{title: title})
		case len(all) == 0:
			return nil, fail("before the first section")
		case m != nil:
			s := &all[len(all)-1]
			s.items = append(s.items, item{id: m[1], title: m[2]})
		case strings.HasPrefix(line, "  ") && len(all[len(all)-1].items) > 0:
			kind, why, ok := strings.Cut(strings.TrimSpace(line), ": ")
			last := &all[len(all)-1].items[len(all[len(all)-1].items)-1]
			if ok && kind == "also" && last.also == "" {
				last.also = why
				continue
			}
			if !ok || last.remark != "" || !slices.Contains([]string{gateway, none, open, partly}, kind) {
				return nil, fail("neither gateway nor none, open, partly or also, or the second of them")
			}
			last.remark, last.why = kind, why
		default:
			return nil, fail("neither a section nor a behaviour")
		}
	}
	return all, complete(all)
}

// complete checks that the catalogue has every id there is, once.
func complete(all []section) error {
	want := map[string]bool{}
	for _, id := range ids() {
		want[id] = true
	}
	var wrong []error
	nones := 0
	for _, s := range all {
		for _, it := range s.items {
			if !want[it.id] {
				wrong = append(wrong, fmt.Errorf("catalogue.txt: %s is there twice, or is no id", it.id))
			}
			delete(want, it.id)
			if it.remark == none {
				nones++
			}
		}
	}
	for _, id := range ids() {
		if want[id] {
			wrong = append(wrong, fmt.Errorf("catalogue.txt: %s is missing", id))
		}
	}
	if nones > mostNone {
		wrong = append(wrong, fmt.Errorf("catalogue.txt: %d behaviours without a counterpart; at most %d", nones, mostNone))
	}
	return errors.Join(wrong...)
}

// ids returns all ids of behaviours (A), scenarios (C, X) and properties (S, L, R).
func ids() []string {
	var all []string
	many := func(format string, n int) {
		for i := range n {
			all = append(all, fmt.Sprintf(format, i+1))
		}
	}
	many("A1.%d", 15)
	many("A2.%d", 15)
	many("A3.%d", 9)
	many("A4.%d", 11)
	many("A5 step %d", 3)
	many("A5.%d", 8)
	many("A6.%d", 7)
	many("A7.%d", 2)
	all = append(all, "A8", "A9")
	many("A10.%d", 13)
	all = append(all, "A11")
	many("A12.%d", 11)
	all = append(all, "A13", "A14", "A15", "A16", "A17", "A18")
	many("B2.%d", 15)
	many("B3.%d", 10)
	many("B4.%d", 5)
	many("B5.%d", 8)
	many("B6.%d", 9)
	many("B7.%d", 4)
	many("B8.%d", 3)
	many("B9.%d", 4)
	many("B10.%d", 6)
	many("B11.%d", 4)
	many("C%03d", 101)
	many("X%02d", 16)
	many("S%d", 15)
	many("L%d", 8)
	many("R%d", 4)
	return all
}
