package main

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed words.txt
var listText string

// rule is one line of the list: what is refused, and what to write instead.
type rule struct {
	// phrases are the refused sequences of lower-case words.
	phrases [][]string
	// instead is the replacement that a finding suggests.
	instead string
	// unless are words that allow the phrases, in the path, on the same line of code
	// or in the same paragraph of prose.
	unless []string
}

// list is the parsed list of words.
type list struct {
	// names are refused everywhere: in prose, identifiers, string literals and names of
	// files and packages. Each phrase of theirs is a single word.
	names map[string]*rule
	// prose has the rules for prose by the first word of a phrase. It includes names.
	prose map[string][]match
	skips []skip
}

// match is a phrase of a rule.
type match struct {
	words []string
	*rule
}

// skip excludes paths from the check, for a reason.
type skip struct{ pattern, reason string }

// parseList parses words.txt, whose head describes the format.
func parseList(text string) (*list, error) {
	l := &list{names: map[string]*rule{}, prose: map[string][]match{}}
	section := ""
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		bad := func(what string) error { return fmt.Errorf("words.txt:%d: %s: %q", i+1, what, line) }
		left, right, found := strings.Cut(line, " -> ")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case line == "[names]" || line == "[phrases]" || line == "[skip]":
			section = line
			continue
		case !found || strings.TrimSpace(right) == "":
			return nil, bad("a line needs ` -> ` and a replacement or a reason")
		case section == "":
			return nil, bad("a line before the first section")
		case section == "[skip]":
			l.skips = append(l.skips, skip{pattern: left, reason: right})
			continue
		}
		r := &rule{instead: right}
		if instead, unless, found := strings.Cut(right, "; unless "); found {
			r.instead, r.unless = instead, strings.Fields(unless)
		}
		for _, phrase := range strings.Split(left, ",") {
			words := strings.Fields(phrase)
			if len(words) == 0 || section == "[names]" && len(words) > 1 {
				return nil, bad("names are single words, and phrases are not empty")
			}
			if slices.ContainsFunc(l.prose[words[0]], func(m match) bool { return slices.Equal(m.words, words) }) {
				return nil, bad("listed twice: " + strings.Join(words, " "))
			}
			r.phrases = append(r.phrases, words)
			l.prose[words[0]] = append(l.prose[words[0]], match{words, r})
			if section == "[names]" {
				l.names[words[0]] = r
			}
		}
	}
	return l, nil
}

// allows reports whether one of some words lifts the rule.
func (r *rule) allows(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(r.unless, w) })
}

// skipped reports whether the check leaves out a path.
func (l *list) skipped(path string) bool {
	return slices.ContainsFunc(l.skips, func(s skip) bool {
		if suffix, found := strings.CutPrefix(s.pattern, "*"); found {
			return strings.HasSuffix(path, suffix)
		}
		return path == s.pattern || strings.HasSuffix(s.pattern, "/") && strings.HasPrefix(path, s.pattern)
	})
}
