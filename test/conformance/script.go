package main

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// readScript returns the citations in the cases of a script.
func readScript(module fs.FS, name string, players map[string]player) ([]citation, error) {
	src, err := fs.ReadFile(module, name)
	if err != nil {
		return nil, err
	}
	read := datadrivenCases
	if path.Ext(name) == ".txtar" {
		read = testscriptCases
	}
	cases, err := read(strings.Split(string(src), "\n"))
	if err != nil {
		return nil, fmt.Errorf("%s:%w", name, err)
	}
	by, ok := players[name]
	if !ok {
		if by, ok = players[path.Dir(name)]; ok {
			by.test += "/" + strings.TrimSuffix(path.Base(name), path.Ext(name))
		}
	}
	var all []citation
	for _, c := range cases {
		found, err := mentions(c.comment)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s:%d: %w", name, c.line, err)
		case len(found) > 0 && !ok:
			return nil, fmt.Errorf("%s:%d: %s is cited, but no test plays this script", name, c.line, found[0].ids[0])
		case len(found) > 0 && !c.expects:
			return nil, fmt.Errorf("%s:%d: %s is cited, but no case that expects anything stands below", name, c.line, found[0].ids[0])
		}
		for _, m := range found {
			for _, id := range m.ids {
				all = append(all, citation{ID: id, File: name, Line: c.line + m.line, Package: by.pkg, Test: by.test})
			}
		}
	}
	return all, nil
}

// scriptCase is a comment with the commands between it and the next comment.
type scriptCase struct {
	comment []string
	line    int
	expects bool // a command has an expected output
}

// datadrivenCases reads the format of package datadriven: comments, and commands with their
// output after "----" up to an empty line, or after two such lines up to two others.
func datadrivenCases(lines []string) ([]scriptCase, error) {
	cases := []scriptCase{{}}
	for i := 0; i < len(lines); i++ {
		current := &cases[len(cases)-1]
		switch line := lines[i]; {
		case strings.HasPrefix(line, "#"):
			if i == 0 || !strings.HasPrefix(lines[i-1], "#") {
				cases = append(cases, scriptCase{line: i + 1})
				current = &cases[len(cases)-1]
			}
			current.comment = append(current.comment, uncommented(line))
		case line == "----" && i+1 < len(lines) && lines[i+1] == "----":
			from := i + 2
			for i = from; ; i++ {
				if i+1 >= len(lines) {
					return nil, fmt.Errorf("%d: the output has no end", from)
				}
				if lines[i] == "----" && lines[i+1] == "----" {
					break
				}
				current.expects = true
			}
			i++
		case line == "----":
			for i++; i < len(lines) && lines[i] != ""; i++ {
				current.expects = true
			}
		}
	}
	return cases, nil
}

// testscriptCases returns the cases of the script in a txtar archive.
func testscriptCases(lines []string) ([]scriptCase, error) {
	cases := []scriptCase{{}}
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "-- "):
			return cases, nil
		case strings.HasPrefix(line, "#"):
			if i == 0 || !strings.HasPrefix(lines[i-1], "#") {
				cases = append(cases, scriptCase{line: i + 1})
			}
			current := &cases[len(cases)-1]
			current.comment = append(current.comment, uncommented(line))
		case strings.TrimSpace(line) != "":
			cases[len(cases)-1].expects = true // a command that fails fails the script
		}
	}
	return cases, nil
}

func uncommented(line string) string { return strings.TrimPrefix(strings.TrimPrefix(line, "#"), " ") }
