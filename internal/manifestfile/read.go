// Package manifestfile reads and writes files of manifests: YAML or JSON, any number of
// documents, and lists. It is separate from package manifest so that the SDK does not
// import YAML.
package manifestfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	encoding "golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/coppice-gc/coppice/internal/codec/jsonvalue"
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
	// Foreign is the error of a resourceVersion that comes from another system. Object has none then.
	Foreign *manifest.RevisionError
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
// as booleans, as in YAML 1.1, and takes a line that begins with --- for the end of a document.
//
// The error is a *SyntaxError; Read also returns the entries before it. A document that is
// not an object is an Entry with an error, and Read continues with the next.
func Read(file string, data []byte) ([]Entry, error) {
	var entries []Entry
	err := documents(file, data, func(s source) {
		entries = appendEntries(entries, file, s, list{})
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
			if patch, problem = s.json(); problem == nil {
				problem = manifest.CheckTexts(patch)
			}
			if problem != nil {
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
	// list returns apiVersion, kind and items of an object that has a kind of lists and the member items. The error says
	// why there are no items.
	list() (apiVersion, kind string, items []source, ok bool, err error)
	// json returns the value as JSON. A *nodeError has a line.
	json() ([]byte, error)
	// lineAt returns the line of the member to which a path leads, or of the last member of the path that exists.
	lineAt(path []string) int
}

var (
	newline = []byte("\n")
	// bom is the byte order mark. Files that were joined have it at the beginning of each.
	bom = []byte("\uFEFF")
)

// documents calls f with each document of a file that is not null.
func documents(file string, data []byte, f func(source)) error {
	// A text without a byte order mark is UTF-8.
	data, _, err := transform.Bytes(encoding.BOMOverride(transform.Nop), data)
	if err != nil {
		return &SyntaxError{At: Position{File: file, Line: 1}, What: err.Error()}
	}
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return &SyntaxError{At: Position{File: file, Line: lineAt(data, i)}, What: "neither YAML nor JSON: the character U+0000 is in no text; save the file as UTF-8, or as UTF-16 with a byte order mark"}
	}
	for before := 0; len(data) > 0; {
		end, next, err := documentEnd(data)
		t := text{file: file, before: before, data: bytes.TrimPrefix(data[:end], bom)}
		if fail := t.documents(f); fail != nil {
			return fail
		}
		before += bytes.Count(data[:end], newline)
		if err != nil {
			return &SyntaxError{At: Position{File: file, Line: before + 1}, What: "invalid YAML: " + err.Error()}
		}
		before += bytes.Count(data[end:next], newline)
		data = data[next:]
	}
	return nil
}

// documentEnd returns where the first document of a text ends, and where the next begins.
func documentEnd(data []byte) (end, next int, err error) {
	for next < len(data) && err == nil {
		end = next
		if n := bytes.IndexByte(data[end:], '\n'); n >= 0 {
			next = end + n + 1
		} else {
			next = len(data)
		}
		line := bytes.TrimPrefix(data[end:next], bom)
		if !bytes.HasPrefix(line, []byte("---")) && !bytes.HasPrefix(line, []byte("...")) {
			continue
		}
		after := bytes.TrimSpace(line[3:])
		if len(after) == 0 || after[0] == '#' {
			return end, next, nil
		}
		if line[0] == '-' {
			err = fmt.Errorf("%.20q follows --- on its line: begin the document on the next line", after)
		}
	}
	if err == nil {
		end = len(data)
	}
	return end, next, err
}

// text is a part of a file: what is between two separators of documents.
type text struct {
	file   string
	before int // the lines before it
	data   []byte
}

// at returns the position of an offset.
func (t text) at(offset int) Position {
	return Position{File: t.file, Line: t.before + lineAt(t.data, offset)}
}

// from returns the text from an offset on.
func (t text) from(offset int) text {
	t.before += bytes.Count(t.data[:offset], newline)
	t.data = t.data[offset:]
	return t
}

// documents is documents for a text: JSON, YAML, or JSON and then YAML.
func (t text) documents(f func(source)) error {
	if !looksLikeJSON(t.data) {
		return t.yaml(f)
	}
	end, err := t.json(f)
	if err == nil {
		return nil
	}
	rest := t.from(end) // a brace may also begin a YAML document
	rest.data = bytes.TrimLeft(rest.data, " \t\r")
	fail := rest.yaml(f)
	if fail != nil && (strings.HasSuffix(t.file, ".json") || quotedKey(t.data)) {
		return err
	}
	return fail
}

// list is the list in which an object stands.
type list struct {
	apiVersion, kind string // of an item that has neither
	path             string // "items[1]: "
	depth            int
}

// maxDepth is the maximum depth of lists in lists. Each list is read again for the list in which it stands.
const maxDepth = 10

// item returns the list for the item with an index.
func (l list) item(index int) list {
	l.path = fmt.Sprintf("%sitems[%d]: ", l.path, index)
	l.depth++
	return l
}

// listOf returns the kind of a list's items: "Pod" for PodList, and "" for List, whose
// items have kinds of their own.
func listOf(kind string) (string, bool) { return strings.CutSuffix(kind, "List") }

var (
	errNotAnObject = errors.New("not an object: a manifest has apiVersion, kind and metadata")
	errNoItems     = errors.New("a List has items: this one has no member of this name")
	errItems       = errors.New("items: must be a list")
	errTooDeep     = fmt.Errorf("lists stand in lists more than %d deep: write their items in one list", maxDepth)
)

func errTwice(name string) error { return fmt.Errorf("%q is there already", name) }

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

// appendEntries appends the objects of a document, or of an item of a list.
func appendEntries(entries []Entry, file string, s source, in list) []Entry {
	apiVersion, kind, items, ok, err := s.list()
	if ok && err == nil && in.depth == maxDepth {
		err = errTooDeep
	}
	if ok && err == nil {
		of := list{path: in.path, depth: in.depth}
		if of.kind, _ = listOf(kind); of.kind != "" {
			of.apiVersion = apiVersion
		}
		for i, item := range items {
			entries = appendEntries(entries, file, item, of.item(i))
		}
		return entries
	}
	e := Entry{At: Position{File: file, Line: max(s.line(), 1)}}
	if !ok {
		e.Object, e.Foreign, err = object(s, in)
	}
	if err != nil {
		e.At.Line = max(lineOf(s, err), 1)
		e.Err = fmt.Errorf("%s: %s%w", e.At, in.path, err)
	}
	return append(entries, e)
}

// object returns the object of a manifest. An item of a list without apiVersion and kind has those of the list.
func object(s source, in list) (*coppicev1.Object, *manifest.RevisionError, error) {
	if !s.isObject() {
		return nil, nil, errNotAnObject
	}
	raw, err := s.json()
	if err != nil {
		return nil, nil, err
	}
	o, err := manifest.FromJSON(raw)
	var foreign *manifest.RevisionError
	if errors.As(err, &foreign) {
		if raw, err = jsonvalue.MergePatch(raw, []byte(`{"metadata":{"resourceVersion":null}}`)); err == nil {
			o, err = manifest.FromJSON(raw)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if err := checkMembers(o); err != nil {
		return nil, nil, err
	}
	if o.ApiVersion == "" && o.Kind == "" {
		o.ApiVersion, o.Kind = in.apiVersion, in.kind
	}
	switch {
	case o.GetKind() == "":
		return nil, nil, errors.New("kind is missing: a manifest says what it is by apiVersion and kind")
	case o.GetApiVersion() == "":
		return nil, nil, fmt.Errorf("apiVersion is missing: a manifest says what it is by apiVersion and kind (%s)", o.GetKind())
	case o.GetApiVersion() == "v1" && o.GetKind() == "List":
		return nil, nil, errNoItems
	}
	return o, foreign, nil
}

// ofMetadata are members of metadata that no known kind has outside of it. labels is not one of
// them: a Template of OpenShift has labels.
var ofMetadata = []string{"name", "generateName", "namespace", "annotations", "ownerReferences", "finalizers"}

// checkMembers returns an error for an object that has a member of metadata next to metadata.
func checkMembers(o *coppicev1.Object) error {
	if len(o.GetExtra()) == 0 {
		return nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(o.GetExtra(), &members); err != nil {
		return err
	}
	for _, name := range ofMetadata {
		if _, ok := members[name]; ok {
			return fmt.Errorf("%s stands next to metadata: move it into metadata", name)
		}
	}
	return nil
}

// lineAt returns the line of an offset.
func lineAt(data []byte, offset int) int {
	return 1 + bytes.Count(data[:min(max(offset, 0), len(data))], newline)
}
