package main

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// citation is a test case that shows a behaviour.
type citation struct {
	ID   string
	File string // relative to the module
	Line int
	// Package is the directory of the test, and Test its name, which includes the script
	// that it plays: TestScripts/create.
	Package, Test string
}

const (
	idPattern  = `[ABCLRSX]\d+(?:\.\d+)?(?: step [1-3])?`
	separators = `(?:, | and | to | \[)`
)

var (
	citing   = regexp.MustCompile(`^(` + idPattern + `(?:, ` + idPattern + `)*): \S`)
	mistaken = regexp.MustCompile(`^` + idPattern + `(?:` + separators + idPattern + `)*` + separators + `?[^.:]{0,12}:( |$)`)
)

// mention is a citation whose test is not known yet.
type mention struct {
	ids  []string
	line int // line in the comment; the first is 0
}

// mentions reads the lines of a comment without their comment markers.
func mentions(block []string) ([]mention, error) {
	var all []mention
	for i, line := range block {
		m := citing.FindStringSubmatch(line)
		switch {
		case m == nil && mistaken.MatchString(line):
			return nil, fmt.Errorf("%q: ids are separated by commas, and a colon follows them", line)
		case m == nil:
		case i > 0 && !endsSentence(block[i-1]):
			return nil, fmt.Errorf("%q: a citation begins a sentence, and a line", line)
		default:
			all = append(all, mention{ids: strings.Split(m[1], ", "), line: i})
		}
	}
	return all, nil
}

func endsSentence(line string) bool {
	line = strings.TrimSpace(line)
	return line == "" || strings.ContainsAny(line[len(line)-1:], ".:?!")
}

// collect returns all citations of a module, ordered by file and line.
func collect(module fs.FS) ([]citation, error) {
	var all []citation
	players := map[string]player{}
	var scripts []string
	err := fs.WalkDir(module, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if _, err := fs.Stat(module, path.Join(p, "go.mod")); p != "." && err == nil || p == ".git" || d.Name() == "node_modules" {
				return fs.SkipDir // another module, or packages of npm
			}
		case strings.HasSuffix(p, "_test.go"):
			found, plays, err := readGo(module, p)
			if err != nil {
				return err
			}
			all = append(all, found...)
			for _, of := range plays {
				players[of.of] = of
			}
		case strings.Contains(p, "/testdata/") && (path.Ext(p) == ".txt" || path.Ext(p) == ".txtar"):
			scripts = append(scripts, p)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, p := range scripts {
		found, err := readScript(module, p, players)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.SortStableFunc(all, func(a, b citation) int { return strings.Compare(a.File, b.File) })
	return all, nil
}
