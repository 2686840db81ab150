package jsonpath

import (
	"fmt"
	"strings"

	"k8s.io/client-go/util/jsonpath"
)

// Path selects values of a document.
type Path struct {
	text string
	path *jsonpath.JSONPath
}

// ParsePath reads a path as in custom columns, --sort-by and wait: metadata.name,
// .metadata.name, {metadata.name} and {.metadata.name} are the same. An empty path
// selects nothing.
func ParsePath(text string) (*Path, error) {
	p := &Path{text, jsonpath.New("path").AllowMissingKeys(true)}
	if text == "" {
		return p, p.path.Parse("")
	}
	inner := text
	if s, ok := strings.CutPrefix(text, "{"); ok {
		inner, _ = strings.CutSuffix(s, "}")
		if inner == s {
			return nil, fmt.Errorf("path %s: the closing } is missing", text)
		}
	}
	if inner == "" || strings.ContainsAny(inner, "{}") {
		return nil, fmt.Errorf("path %s: write one path, such as {.metadata.name} or .metadata.name", text)
	}
	if inner != "." {
		inner = strings.TrimPrefix(inner, ".")
	}
	if err := p.path.Parse("{." + inner + "}"); err != nil {
		return nil, fmt.Errorf("path %s: %w", text, err)
	}
	return p, nil
}

// String returns the path as it was written.
func (p *Path) String() string { return p.text }

// Select returns the values that the path selects, none if there are none.
func (p *Path) Select(document any) ([]any, error) {
	results, err := p.path.FindResults(document)
	if err != nil {
		return nil, fmt.Errorf("path %s: %w", p.text, err)
	}
	var values []any
	for _, result := range results {
		for _, v := range result {
			values = append(values, v.Interface())
		}
	}
	return values, nil
}
