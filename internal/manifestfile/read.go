// Package manifestfile reads and writes files of manifests: YAML or JSON, any number of
// documents, and lists. It is separate from package manifest so that the SDK does not
// import YAML.
package manifestfile

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/coppice-gc/coppice/internal/manifest"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Position is a line of a file.
type Position struct {
	File string
	Line int // the first line is 1
}

// String returns the position as compilers print it: "web.yaml:12".
func (p Position) String() string { return p.File + ":" + strconv.Itoa(p.Line) }

// Entry is an object of a file, or the error Err in its place.
type Entry struct {
	At     Position
	Object *coppicev1.Object
	// Err begins with the position.
	Err error
}

// SyntaxError says that a file is neither YAML nor JSON at a position. The rest of the
// file was not read.
type SyntaxError struct {
	At   Position
	What string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s: %s", e.At, e.What) }

// Read reads the objects of a file. The file is YAML or JSON, and has any number of
// documents. For a list Read returns the items. Like kubectl it reads yes, no, y, n, on and off
// as booleans, as in YAML 1.1.
//
// The error is a *SyntaxError; Read also returns the entries before it. A document that is
// not an object is an Entry with an error, and Read continues with the next.
func Read(file string, data []byte) ([]Entry, error) {
	var entries []Entry
	err := documents(file, data, func(s source) {
		entries = appendEntries(entries, file, s, "", "")
	})
	return entries, err
}

// ReadPatch reads the one document of a file as Read does, and returns it as JSON. It must be an object.
func ReadPatch(file string, data []byte) ([]byte, error) {
	var patch []byte
	var problem error
	n := 0
	err := documents(file, data, func(s source) {
		switch n++; {
		case problem != nil:
		case n > 1:
			problem = at(file, s.line(), errors.New("a second document: there must be one"))
		case !s.isObject():
			problem = at(file, s.line(), errors.New("not an object"))
		default:
			if patch, problem = s.json(); problem != nil {
				problem = at(file, lineOf(s, problem), problem)
			}
		}
	})
	switch {
	case err != nil:
		return nil, err
	case n == 0:
		return nil, errors.New("it is empty")
	}
	return patch, problem
}

// source is a value in a file.
type source interface {
	line() int
	isObject() bool
	// list returns apiVersion, kind and items of an object that has a kind and a list of items.
	list() (apiVersion, kind string, items []source)
	// json returns the value as JSON. A *nodeError has a line.
	json() ([]byte, error)
	// lineAt returns the line of the member to which a path leads, or of the last member of the path that exists.
	lineAt(path []string) int
}

// documents calls f with each document of a file that is not null.
func documents(file string, data []byte, f func(source)) error {
	if !looksLikeJSON(data) {
		return yamlDocuments(file, data, f)
	}
	var values []source
	err := jsonDocuments(file, data, func(s source) { values = append(values, s) })
	if err != nil && !strings.HasSuffix(file, ".json") && !quotedKey(data) {
		return yamlDocuments(file, data, f) // a brace may also begin a YAML document
	}
	for _, s := range values {
		f(s)
	}
	return err
}

// at returns an error with its position.
func at(file string, line int, err error) error {
	return fmt.Errorf("%s: %w", Position{File: file, Line: max(line, 1)}, err)
}

// lineOf returns the line of an error of a value.
func lineOf(s source, err error) int {
	if node := (*nodeError)(nil); errors.As(err, &node) {
		return node.line
	}
	if field := (*manifest.FieldError)(nil); errors.As(err, &field) {
		return s.lineAt(field.Path)
	}
	return s.line()
}

// errNotAnObject is the error of a document that is not a mapping.
var errNotAnObject = errors.New("not an object: a manifest has apiVersion, kind and metadata")

// appendEntries appends the objects of a document, or of an item of a list. An item without
// apiVersion or kind has those of the list.
func appendEntries(entries []Entry, file string, s source, apiVersion, kind string) []Entry {
	if s.isObject() {
		listVersion, listKind, items := s.list()
		if of, ok := listOf(listKind); ok {
			if of == "" {
				listVersion = ""
			}
			for _, item := range items {
				entries = appendEntries(entries, file, item, listVersion, of)
			}
			return entries
		}
	}
	e := Entry{At: Position{File: file, Line: max(s.line(), 1)}}
	o, err := object(s, apiVersion, kind)
	if err != nil {
		e.At.Line = max(lineOf(s, err), 1)
		e.Err = fmt.Errorf("%s: %w", e.At, err)
	} else {
		e.Object = o
	}
	return append(entries, e)
}

// listOf returns the kind of a list's items: "Pod" for PodList, and "" for List, whose
// items have kinds of their own.
func listOf(kind string) (string, bool) { return strings.CutSuffix(kind, "List") }

// object returns the object of a manifest.
func object(s source, apiVersion, kind string) (*coppicev1.Object, error) {
	if !s.isObject() {
		return nil, errNotAnObject
	}
	raw, err := s.json()
	if err != nil {
		return nil, err
	}
	o, err := manifest.FromJSON(raw)
	if err != nil {
		return nil, err
	}
	if o.ApiVersion == "" && o.Kind == "" {
		o.ApiVersion, o.Kind = apiVersion, kind
	}
	switch {
	case o.GetKind() == "":
		return nil, errors.New("kind is missing: a manifest says what it is by apiVersion and kind")
	case o.GetApiVersion() == "":
		return nil, fmt.Errorf("apiVersion is missing: a manifest says what it is by apiVersion and kind (%s)", o.GetKind())
	}
	return o, nil
}

func looksLikeJSON(data []byte) bool {
	data = bytes.TrimLeft(data, " \t\r\n")
	return len(data) > 0 && (data[0] == '{' || data[0] == '[')
}

// quotedKey reports whether the text begins like a JSON object. Its syntax errors are then
// reported as errors of JSON.
func quotedKey(data []byte) bool {
	data = bytes.TrimLeft(data, " \t\r\n{[")
	return len(data) > 0 && data[0] == '"'
}

// lineAt returns the line of an offset.
func lineAt(data []byte, offset int) int {
	return 1 + bytes.Count(data[:min(max(offset, 0), len(data))], []byte("\n"))
}
