package jsonpath

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Template is text with expressions in braces.
type Template struct{ nodes []node }

// node is a part of a template. One of the fields is set.
type node struct {
	text string
	path *Path
	// body is written for each value of over.
	over *Path
	body []node
}

// Parse reads a template.
func Parse(text string) (*Template, error) {
	if !strings.Contains(text, "{") {
		return nil, fmt.Errorf("template %q has no expression in braces: write {%s}", text, text)
	}
	p := parser{rest: text}
	nodes, ended, err := p.nodes(false)
	if err == nil && ended {
		err = errors.New("{end} without {range}")
	}
	if err != nil {
		return nil, fmt.Errorf("template %q: %w", text, err)
	}
	return &Template{nodes: nodes}, nil
}

type parser struct{ rest string }

// nodes reads up to the end of the text, or up to {end}.
func (p *parser) nodes(inRange bool) (nodes []node, ended bool, err error) {
	for p.rest != "" {
		text, _, found := strings.Cut(p.rest, "{")
		if text != "" {
			nodes = append(nodes, node{text: text})
		}
		p.rest = p.rest[len(text):]
		if !found {
			break
		}
		action, err := p.action()
		if err != nil {
			return nil, false, err
		}
		word, of, _ := strings.Cut(action, " ")
		switch {
		case action == "end":
			return nodes, true, nil
		case word == "range":
			n, err := p.rangeOver(strings.TrimSpace(of))
			if err != nil {
				return nil, false, err
			}
			nodes = append(nodes, n)
		default:
			n, err := expression(action)
			if err != nil {
				return nil, false, err
			}
			nodes = append(nodes, n)
		}
	}
	if inRange {
		return nil, false, errors.New("the {end} of {range} is missing")
	}
	return nodes, false, nil
}

func (p *parser) rangeOver(of string) (node, error) {
	if of == "" {
		return node{}, errors.New("{range} names no path: write {range .items[*]}")
	}
	over, err := parsePath(of)
	if err != nil {
		return node{}, err
	}
	body, _, err := p.nodes(true)
	return node{over: over, body: body}, err
}

// action returns what is between the braces that the text begins with.
func (p *parser) action() (string, error) {
	quoted := byte(0)
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == '\\':
			i++
		case quoted != 0:
			if c == quoted {
				quoted = 0
			}
		case c == '\'' || c == '"':
			quoted = c
		case c == '}':
			action := strings.TrimSpace(p.rest[1:i])
			p.rest = p.rest[i+1:]
			return action, nil
		}
	}
	return "", fmt.Errorf("the closing } is missing in %q", p.rest)
}

// expression reads an expression: a path, or text in quotes.
func expression(action string) (node, error) {
	switch {
	case action == "":
		return node{}, errors.New("{} is empty: write a path such as {.metadata.name}")
	case action[0] == '"' || action[0] == '\'':
		text, err := unescape(action)
		return node{text: text}, err
	case strings.ContainsRune(".[$@", rune(action[0])):
		path, err := parsePath(action)
		return node{path: path}, err
	}
	return node{}, fmt.Errorf("{%s} is not understood: an expression is {.path}, {\"text\"}, {range .path} or {end}", action)
}

// unescape reads text in single or double quotes, with the escapes of Go.
func unescape(quoted string) (string, error) {
	inner, ok := unquote(quoted)
	if !ok {
		return "", fmt.Errorf("{%s}: the closing quote is missing", quoted)
	}
	var b strings.Builder
	for inner != "" {
		r, _, rest, err := strconv.UnquoteChar(inner, quoted[0])
		if err != nil {
			return "", fmt.Errorf("{%s}: a quote or an escape in it is not understood", quoted)
		}
		b.WriteRune(r)
		inner = rest
	}
	return b.String(), nil
}

// Execute writes the template for a document, as encoding/json decodes it. A path
// that selects nothing writes nothing; several values are separated by spaces.
func (t *Template) Execute(w io.Writer, document any) error {
	var b strings.Builder
	write(&b, t.nodes, document, document)
	_, err := io.WriteString(w, b.String())
	return err
}

func write(b *strings.Builder, nodes []node, document, current any) {
	for _, n := range nodes {
		switch {
		case n.over != nil:
			for _, v := range n.over.selectFrom(document, current) {
				write(b, n.body, document, v)
			}
		case n.path != nil:
			for i, v := range n.path.selectFrom(document, current) {
				if i > 0 {
					b.WriteByte(' ')
				}
				b.WriteString(Text(v))
			}
		default:
			b.WriteString(n.text)
		}
	}
}

// Text writes a value for people and scripts: a string as it is, nothing for null,
// anything else as JSON.
func Text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprint(v) // not a value that encoding/json decodes
	}
	return strings.TrimSuffix(b.String(), "\n")
}
