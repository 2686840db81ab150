package manifestfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// yaml calls f with each document of YAML in a text that is not null.
func (t text) yaml(f func(source)) error {
	if err := t.checkCharacters(); err != nil {
		return err
	}
	d := yaml.NewDecoder(bytes.NewReader(t.data))
	for {
		var n yaml.Node
		err := d.Decode(&n)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return t.syntax(err)
		}
		root := &n
		if n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
			root = n.Content[0]
		}
		if root.Kind == 0 || root.ShortTag() == "!!null" {
			continue // an empty document, or only comments
		}
		if _, _, err := (anchors{}).measure(root); err != nil {
			return &SyntaxError{At: Position{File: t.file, Line: t.before + lineOf(yamlSource{n: root}, err)}, What: err.Error()}
		}
		f(yamlSource{root, t.before})
	}
}

// yamlSource is a value in YAML.
type yamlSource struct {
	n      *yaml.Node
	before int // the lines before the text in which the node counts its own
}

func (s yamlSource) line() int { return s.before + s.n.Line }

func (s yamlSource) isObject() bool { return s.n.Kind == yaml.MappingNode }

func (s yamlSource) list() (apiVersion, kind string, items []source, ok bool, err error) {
	if !s.isObject() {
		return "", "", nil, false, nil
	}
	list := member(s.n, "items")
	kind = scalar(member(s.n, "kind"))
	if _, is := listOf(kind); list == nil || !is {
		return "", "", nil, false, nil
	}
	if _, err = membersOf(s.n, nil); err != nil {
		err = s.inFile(err)
	} else if list.Kind == yaml.SequenceNode {
		for _, item := range list.Content {
			items = append(items, yamlSource{resolved(item), s.before})
		}
	} else if list.ShortTag() != "!!null" {
		err = &nodeError{s.before + list.Line, errItems.Error()}
	}
	return scalar(member(s.n, "apiVersion")), kind, items, true, err
}

func (s yamlSource) json() ([]byte, error) {
	raw, err := toJSON(s.n)
	return raw, s.inFile(err)
}

// inFile returns an error of a node with its line in the file.
func (s yamlSource) inFile(err error) error {
	if node := (*nodeError)(nil); errors.As(err, &node) {
		return &nodeError{s.before + node.line, node.what}
	}
	return err
}

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
	return s.before + line
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
func (t text) syntax(err error) error {
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
		if i := bytes.Index(t.data, []byte("*"+strings.TrimSuffix(anchor, "'"))); i >= 0 {
			line = lineAt(t.data, i)
		}
	}
	line = min(line, lineAt(t.data, len(bytes.TrimRight(t.data, " \t\r\n")))) // not the end of the text
	return &SyntaxError{At: Position{File: t.file, Line: t.before + max(line, 1)}, What: "invalid YAML: " + text + t.hint()}
}
