package main

import "strings"

// markdown checks a document: paragraphs as prose, fenced code for names.
func (f *file) markdown() {
	start, fenced := 0, false
	end := func(i int) { // the paragraph is f.lines[start:i]
		if text := strings.Join(f.lines[start:i], "\n"); strings.TrimSpace(text) != "" {
			f.prose(start+1, kindDoc, text)
		}
		start = i
	}
	for i, line := range f.lines {
		switch trimmed := strings.TrimSpace(line); {
		case strings.HasPrefix(trimmed, "```"):
			end(i)
			fenced, start = !fenced, i+1
		case fenced:
			f.code(i+1, i+1, kindDoc)
			start = i + 1
		case trimmed == "":
			end(i)
		case strings.HasPrefix(trimmed, "|") || strings.HasPrefix(trimmed, "#"):
			end(i)
		}
	}
	end(len(f.lines))
}

// catalogue is the source of a document, docs/conformance.md, which quotes it.
const catalogue = "test/conformance/catalogue.txt"

// script checks a test script: comments as prose, commands and their output for names. All
// lines of the catalogue are prose.
func (f *file) script() {
	var text []string // of a comment that goes on
	end := func(i int) {
		f.prose(i-len(text)+1, kindText, strings.Join(text, "\n"))
		text = nil
	}
	for i, line := range f.lines {
		if comment, found := strings.CutPrefix(line, "#"); found || f.path == catalogue {
			text = append(text, comment)
			continue
		}
		end(i)
		f.code(i+1, i+1, kindText)
	}
	end(len(f.lines))
}

// protobuf checks a .proto file: comments as prose, everything else for names.
func (f *file) protobuf() {
	start := -1 // of a comment that goes on
	end := func(i int) {
		if start < 0 {
			return
		}
		var text []string
		for _, line := range f.lines[start:i] {
			_, comment, _ := strings.Cut(line, "//")
			if directive("//" + comment) {
				comment = ""
			}
			text = append(text, comment)
		}
		f.prose(start+1, kindProto, strings.Join(text, "\n"))
		start = -1
	}
	for i, line := range f.lines {
		code, _, comment := strings.Cut(line, "//")
		if !comment || strings.TrimSpace(code) != "" {
			end(i)
		}
		f.add(f.inCode(f.path, i+1, kindProto, code, nil))
		if comment && start < 0 {
			start = i
		}
	}
	end(len(f.lines))
}
