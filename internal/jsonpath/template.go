package jsonpath

import (
	"fmt"
	"io"
	"strings"

	"k8s.io/client-go/util/jsonpath"
)

// Template is text with expressions in braces.
type Template struct {
	text   string
	asJSON bool
}

// Parse reads a template. With asJSON, Execute writes the values of each expression
// as a JSON array.
func Parse(text string, asJSON bool) (*Template, error) {
	if !strings.Contains(text, "{") {
		return nil, fmt.Errorf("template %q has no expression in braces: write {%s}", text, text)
	}
	t := &Template{text, asJSON}
	_, err := t.parse()
	return t, err
}

func (t *Template) parse() (*jsonpath.JSONPath, error) {
	p := jsonpath.New("template").AllowMissingKeys(true)
	p.EnableJSONOutput(t.asJSON)
	if err := p.Parse(t.text); err != nil {
		return nil, fmt.Errorf("template %q: %w", t.text, err)
	}
	return p, nil
}

// Execute writes the template for a document, or nothing if it fails. A path that
// selects nothing writes nothing; several values are separated by spaces.
func (t *Template) Execute(w io.Writer, document any) (err error) {
	defer func() { // the library panics if a {range} over null, or over nothing, has a step such as {[0]}
		if p := recover(); p != nil {
			err = fmt.Errorf("template %q: there is no value in the {range}: %v", t.text, p)
		}
	}()
	p, err := t.parse() // again: a {range} changes what has been parsed
	if err != nil {
		return err
	}
	if err := p.Execute(w, document); err != nil {
		return fmt.Errorf("template %q: %w", t.text, err)
	}
	return nil
}
