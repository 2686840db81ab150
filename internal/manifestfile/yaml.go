package manifestfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// yamlDocuments is documents for YAML.
func yamlDocuments(file string, data []byte, f func(source)) error {
	if err := checkText(file, data); err != nil {
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
			return syntax(file, err, data)
		}
		root := &n
		if n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
			root = n.Content[0]
		}
		if root.Kind == 0 || root.ShortTag() == "!!null" {
			continue // an empty document, or only comments
		}
		f(yamlSource{root})
	}
}

// yamlSource is a value in YAML.
type yamlSource struct{ n *yaml.Node }

func (s yamlSource) line() int { return s.n.Line }

func (s yamlSource) isObject() bool { return s.n.Kind == yaml.MappingNode }

func (s yamlSource) list() (apiVersion, kind string, items []source) {
	list := member(s.n, "items")
	if list == nil || list.Kind != yaml.SequenceNode {
		return "", "", nil
	}
	for _, item := range list.Content {
		items = append(items, yamlSource{resolved(item)})
	}
	return scalar(member(s.n, "apiVersion")), scalar(member(s.n, "kind")), items
}

func (s yamlSource) json() ([]byte, error) { return toJSON(s.n) }

func (s yamlSource) lineAt(path []string) int {
	n, line := s.n, s.n.Line
	for _, name := range path {
		i := 0
		for i < len(n.Content) && (n.Kind != yaml.MappingNode || n.Content[i].Value != name) {
			i += 2
		}
		if i >= len(n.Content) {
			break
		}
		n, line = resolved(n.Content[i+1]), n.Content[i].Line
	}
	return line
}

// resolved returns the node that an alias stands for.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// ofTheParser is the prefix of errors of the YAML parser, which count lines from zero. The
// errors of the scanner count from one.
var ofTheParser = regexp.MustCompile(`^(did not find expected (<|node content|'-' indicator|key|',' or)|found (undefined tag|duplicate|incompatible))`)

// syntax returns the error of the YAML package as a SyntaxError with its line.
func syntax(file string, err error, data []byte) error {
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
	return &SyntaxError{At: Position{File: file, Line: max(line, 1)}, What: "invalid YAML: " + text}
}

// checkText returns an error for characters that YAML does not allow, because the
// parser's error does not have their line.
func checkText(file string, data []byte) error {
	line := 1
	for i := 0; i < len(data); {
		c, size := utf8.DecodeRune(data[i:])
		switch {
		case c == '\n':
			line++
		case c == utf8.RuneError && size == 1:
			return &SyntaxError{At: Position{File: file, Line: line}, What: "invalid YAML: the text is not UTF-8"}
		case c == '\t', c == '\r', c == '\uFEFF', c == '\u0085':
		case unicode.Is(unicode.Cc, c):
			return &SyntaxError{At: Position{File: file, Line: line}, What: fmt.Sprintf("invalid YAML: a control character (%U)", c)}
		}
		i += size
	}
	return nil
}
