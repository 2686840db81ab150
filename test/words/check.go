package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// finding is a retired word at a place.
type finding struct {
	path    string
	line    int // 0 for the name of the file
	kind    string
	word    string
	instead string
}

func (f finding) String() string {
	at := f.path
	if f.line > 0 {
		at = fmt.Sprintf("%s:%d", f.path, f.line)
	}
	return fmt.Sprintf("%s: %s: %q is retired: %s", at, f.kind, f.word, f.instead)
}

// dir is the directory of the file.
func (f finding) dir() string { return path.Dir(f.path) }

// The kinds of findings.
const (
	kindComment    = "comment"
	kindDoc        = "doc"
	kindHelp       = "help"
	kindProto      = "proto"
	kindIdentifier = "identifier"
	kindPackage    = "package name"
	kindFile       = "file name"
	kindString     = "string"
	kindText       = "text"
	kindException  = "exception"
)

// check returns what is refused in a tree, in order.
func (l *list) check(tree fs.FS) ([]finding, error) {
	var all []finding
	names := map[string]bool{} // files and directories that were looked at
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && l.skipped(name+"/"):
			return fs.SkipDir
		case !entry.Type().IsRegular() || l.skipped(name):
			return nil
		}
		for at := name; at != "." && !names[at]; at = path.Dir(at) {
			names[at] = true
			all = append(all, l.inCode(at, 0, kindFile, path.Base(at), nil)...)
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		found, err := l.checkFile(name, text)
		all = append(all, found...)
		return err
	})
	slices.SortStableFunc(all, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.line, b.line))
	})
	return slices.Compact(all), err
}

// checkFile checks the content of a file by the rules of its type.
func (l *list) checkFile(name string, text []byte) ([]finding, error) {
	if bytes.IndexByte(text[:min(len(text), 1024)], 0) >= 0 {
		return nil, nil // not text
	}
	f := &file{list: l, path: name, lines: strings.Split(string(text), "\n")}
	switch path.Ext(name) {
	case ".go":
		if err := f.golang(text); err != nil {
			return nil, err
		}
	case ".md":
		f.markdown()
	case ".proto":
		f.protobuf()
	case ".txt", ".txtar":
		f.script()
	default:
		f.code(1, len(f.lines), kindText)
	}
	return f.finish(), nil
}

// file is a file that is being checked.
type file struct {
	*list
	path  string
	lines []string
	found []finding
}

func (f *file) add(found []finding) { f.found = append(f.found, found...) }

// code checks lines, from the first to the last, for names.
func (f *file) code(first, last int, kind string) {
	for i := first; i <= last; i++ {
		f.add(f.inCode(f.path, i, kind, f.lines[i-1], nil))
	}
}

// prose checks text for words and phrases.
func (f *file) prose(line int, kind, text string) {
	all := tokenize(text, line)
	context := split(f.path)
	for _, w := range all {
		context = append(context, w.text)
	}
	for i := 0; i < len(all); {
		w := &all[i]
		longest := match{}
		for _, m := range f.list.prose[w.text] {
			if len(m.words) > len(longest.words) && m.begins(all[i:]) && !m.allows(context) {
				longest = m
			}
		}
		switch {
		case longest.rule != nil:
			f.add([]finding{{f.path, w.line, kind, strings.Join(longest.words, " "), longest.instead}})
		case len(w.parts) > 1:
			f.add(f.inParts(f.path, w.line, kind, w.parts, context))
		}
		i += max(len(longest.words), 1)
	}
}

// begins reports whether the words begin with the phrase.
func (m match) begins(words []word) bool {
	if len(words) < len(m.words) {
		return false
	}
	for i, w := range m.words {
		if words[i].text != w || i > 0 && !words[i].joined {
			return false
		}
	}
	return true
}

// inCode checks an identifier, a literal or a line of code for names. context has more
// words that may allow them.
func (l *list) inCode(name string, line int, kind, code string, context []string) []finding {
	parts := split(code)
	return l.inParts(name, line, kind, parts, slices.Concat(split(name), parts, context))
}

func (l *list) inParts(name string, line int, kind string, parts, context []string) (found []finding) {
	for _, w := range parts {
		if r := l.names[w]; r != nil && !r.allows(context) {
			found = append(found, finding{name, line, kind, w, r.instead})
		}
	}
	return found
}

// allowed matches an exception: //words:allow REASON, or the same in a comment of
// another language.
var allowed = regexp.MustCompile(`(?:^|[^\x60"])(?://|#|<!--|;|\*) ?words:allow\b(.*)$`)

// finish returns the findings without those that an exception covers. An exception
// covers its own line and those below it until an empty line, at most 5. One without a
// reason, or that covers nothing, is a finding.
func (f *file) finish() []finding {
	for i, text := range f.lines {
		m := allowed.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		reason := strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(m[1]), "-->"))
		if reason == "" {
			f.add([]finding{{f.path, i + 1, kindException, "words:allow", "name the reason behind it"}})
			continue
		}
		last := i + 1
		for last < len(f.lines) && last < i+6 && strings.TrimSpace(f.lines[last]) != "" {
			last++
		}
		before := len(f.found)
		f.found = slices.DeleteFunc(f.found, func(x finding) bool { return x.line > i && x.line <= last })
		if len(f.found) == before {
			f.add([]finding{{f.path, i + 1, kindException, "words:allow", "it covers nothing: remove it"}})
		}
	}
	return f.found
}
