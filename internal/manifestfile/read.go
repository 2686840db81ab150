// Package manifestfile reads and writes files of manifests: YAML or JSON, any number of
// documents, and lists. It is separate from package manifest so that the SDK does not
// import YAML.
package manifestfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

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
// documents. For a list Read returns the items. Like kubectl it reads yes, no, on and off
// as booleans, as in YAML 1.1.
//
// The error is a *SyntaxError; Read also returns the entries before it. A document that is
// not an object is an Entry with an error, and Read continues with the next.
func Read(file string, data []byte) ([]Entry, error) {
	r := reader{file: file}
	if looksLikeJSON(data) {
		err := r.json(data)
		if err == nil {
			return r.entries, nil
		}
		if strings.HasSuffix(file, ".json") || quotedKey(data) {
			return r.entries, err
		}
		r = reader{file: file} // a brace may also begin a YAML document
	}
	err := r.yaml(data)
	return r.entries, err
}

type reader struct {
	file    string
	entries []Entry
}

func (r *reader) at(line int) Position { return Position{File: r.file, Line: max(line, 1)} }

func (r *reader) fail(line int, err error) {
	at := r.at(line)
	r.entries = append(r.entries, Entry{At: at, Err: fmt.Errorf("%s: %w", at, err)})
}

// errNotAnObject is the error of a document that is not a mapping.
var errNotAnObject = errors.New("not an object: a manifest has apiVersion, kind and metadata")

func (r *reader) yaml(data []byte) error {
	if err := r.checkText(data); err != nil {
		return err
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var n yaml.Node
		err := d.Decode(&n)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return r.syntax(err, data)
		}
		root := &n
		if n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
			root = n.Content[0]
		}
		if root.Kind == 0 || root.ShortTag() == "!!null" {
			continue // an empty document, or only comments
		}
		r.document(root, "", "")
	}
}

// document adds the objects of a document, or of an item of a list. An item without
// apiVersion or kind has those of the list.
func (r *reader) document(n *yaml.Node, apiVersion, kind string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode {
		r.fail(n.Line, errNotAnObject)
		return
	}
	if items := member(n, "items"); items != nil && items.Kind == yaml.SequenceNode {
		if of, ok := listOf(scalar(member(n, "kind"))); ok {
			itemVersion := ""
			if of != "" {
				itemVersion = scalar(member(n, "apiVersion"))
			}
			for _, item := range items.Content {
				r.document(item, itemVersion, of)
			}
			return
		}
	}
	raw, err := toJSON(n)
	if err != nil {
		var at *nodeError
		line := n.Line
		if errors.As(err, &at) {
			line = at.line
		}
		r.fail(line, err)
		return
	}
	r.object(n.Line, raw, apiVersion, kind)
}

// listOf returns the kind of a list's items: "Pod" for PodList, and "" for List, whose
// items have kinds of their own.
func listOf(kind string) (string, bool) { return strings.CutSuffix(kind, "List") }

func (r *reader) object(line int, raw []byte, apiVersion, kind string) {
	_, duplicates, err := jsonvalue.Normalize(raw)
	if err == nil && len(duplicates) > 0 {
		err = fmt.Errorf("%q is there already", duplicates[0]) // as in YAML
	}
	var o *coppicev1.Object
	if err == nil {
		o, err = manifest.FromJSON(raw)
	}
	if err != nil {
		r.fail(line, err)
		return
	}
	if o.ApiVersion == "" && o.Kind == "" {
		o.ApiVersion, o.Kind = apiVersion, kind
	}
	switch {
	case o.GetKind() == "":
		r.fail(line, errors.New("kind is missing: a manifest says what it is by apiVersion and kind"))
	case o.GetApiVersion() == "":
		r.fail(line, fmt.Errorf("apiVersion is missing: a manifest says what it is by apiVersion and kind (%s)", o.GetKind()))
	default:
		r.entries = append(r.entries, Entry{At: r.at(line), Object: o})
	}
}

// ofTheParser is the prefix of errors of the YAML parser, which count lines from zero. The
// errors of the scanner count from one.
var ofTheParser = regexp.MustCompile(`^(did not find expected (<|node content|'-' indicator|key|',' or)|found (undefined tag|duplicate|incompatible))`)

// syntax returns the error of the YAML package as a SyntaxError with its line.
func (r *reader) syntax(err error, data []byte) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 0
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if number, what, ok := strings.Cut(rest, ": "); ok {
			if n, err := strconv.Atoi(number); err == nil {
				line, text = n, what
			}
		}
	}
	if ofTheParser.MatchString(text) {
		line++
	}
	var anchor string
	if _, err := fmt.Sscanf(text, "unknown anchor '%s referenced", &anchor); err == nil {
		if i := bytes.Index(data, []byte("*"+strings.TrimSuffix(anchor, "'"))); i >= 0 {
			line = lineAt(data, i)
		}
	}
	return &SyntaxError{At: r.at(line), What: "invalid YAML: " + text}
}

// lineAt returns the line of an offset.
func lineAt(data []byte, offset int) int {
	return 1 + bytes.Count(data[:min(max(offset, 0), len(data))], []byte("\n"))
}

// checkText returns an error for characters that YAML does not allow, because the
// parser's error does not have their line.
func (r *reader) checkText(data []byte) error {
	line := 1
	for i := 0; i < len(data); {
		c, size := utf8.DecodeRune(data[i:])
		switch {
		case c == '\n':
			line++
		case c == utf8.RuneError && size == 1:
			return &SyntaxError{At: r.at(line), What: "invalid YAML: the text is not UTF-8"}
		case c == '\t', c == '\r', c == '\uFEFF', c == '\u0085':
		case unicode.Is(unicode.Cc, c):
			return &SyntaxError{At: r.at(line), What: fmt.Sprintf("invalid YAML: a control character (%U)", c)}
		}
		i += size
	}
	return nil
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

func (r *reader) json(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	for {
		var raw json.RawMessage
		err := d.Decode(&raw)
		var bad *json.SyntaxError
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &bad):
			return &SyntaxError{At: r.at(lineAt(data, int(bad.Offset)-1)), What: "invalid JSON: " + bad.Error()}
		case err != nil:
			return &SyntaxError{At: r.at(lineAt(data, len(data))), What: "invalid JSON: it ends in the middle of a value"}
		}
		r.jsonDocument(raw, data, int(d.InputOffset())-len(raw), "", "")
	}
}

// jsonDocument is document for JSON: raw stands at an offset of the file.
func (r *reader) jsonDocument(raw json.RawMessage, data []byte, offset int, apiVersion, kind string) {
	if len(raw) == 0 || raw[0] != '{' {
		if !bytes.Equal(raw, []byte("null")) {
			r.fail(lineAt(data, offset), errNotAnObject)
		}
		return
	}
	var list struct {
		APIVersion, Kind any
		Items            json.RawMessage
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		r.fail(lineAt(data, offset), err)
		return
	}
	if listKind, ok := list.Kind.(string); ok && len(list.Items) > 0 && list.Items[0] == '[' {
		if of, ok := listOf(listKind); ok {
			itemVersion, _ := list.APIVersion.(string)
			if of == "" {
				itemVersion = ""
			}
			for item, at := range itemsOf(raw) {
				r.jsonDocument(item, data, offset+at, itemVersion, of)
			}
			return
		}
	}
	r.object(lineAt(data, offset), raw, apiVersion, kind)
}

// itemsOf iterates over the items of a list with their offsets in it. The list is valid
// JSON.
func itemsOf(list json.RawMessage) func(yield func(json.RawMessage, int) bool) {
	return func(yield func(json.RawMessage, int) bool) {
		d := json.NewDecoder(bytes.NewReader(list))
		_, _ = d.Token() // the brace
		for d.More() {
			name, _ := d.Token()
			if name != "items" {
				var skipped json.RawMessage
				_ = d.Decode(&skipped)
				continue
			}
			_, _ = d.Token() // the bracket
			for d.More() {
				var item json.RawMessage
				if d.Decode(&item) != nil || !yield(item, int(d.InputOffset())-len(item)) {
					return
				}
			}
			return
		}
	}
}
