package manifestfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"github.com/coppice-gc/coppice/internal/codec/jsonvalue"
)

// jsonDocuments is documents for JSON.
func jsonDocuments(file string, data []byte, f func(source)) error {
	d := json.NewDecoder(bytes.NewReader(data))
	for {
		var raw json.RawMessage
		err := d.Decode(&raw)
		var bad *json.SyntaxError
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &bad):
			return &SyntaxError{At: Position{File: file, Line: lineAt(data, int(bad.Offset)-1)}, What: "invalid JSON: " + bad.Error()}
		case err != nil:
			return &SyntaxError{At: Position{File: file, Line: lineAt(data, len(data))}, What: "invalid JSON: it ends in the middle of a value"}
		}
		if !bytes.Equal(raw, []byte("null")) {
			f(jsonSource{raw: raw, file: data, offset: int(d.InputOffset()) - len(raw)})
		}
	}
}

// jsonSource is a value in JSON.
type jsonSource struct {
	raw    json.RawMessage
	file   []byte // what it stands in
	offset int
}

func (s jsonSource) line() int { return lineAt(s.file, s.offset) }

func (s jsonSource) isObject() bool { return s.raw[0] == '{' }

func (s jsonSource) list() (apiVersion, kind string, items []source) {
	var list struct {
		APIVersion, Kind any
		Items            json.RawMessage
	}
	if json.Unmarshal(s.raw, &list) != nil || len(list.Items) == 0 || list.Items[0] != '[' {
		return "", "", nil
	}
	apiVersion, _ = list.APIVersion.(string)
	kind, _ = list.Kind.(string)
	if _, ok := listOf(kind); !ok {
		return "", "", nil
	}
	for item, at := range itemsOf(s.raw) {
		if !bytes.Equal(item, []byte("null")) {
			items = append(items, jsonSource{raw: item, file: s.file, offset: s.offset + at})
		}
	}
	return apiVersion, kind, items
}

func (s jsonSource) json() ([]byte, error) {
	_, duplicates, err := jsonvalue.Normalize(s.raw)
	if err == nil && len(duplicates) > 0 {
		err = fmt.Errorf("%q is there already", duplicates[0])
		if as, ok := s.yaml(); ok {
			if _, e := as.json(); e != nil {
				err = e // with a line
			}
		}
	}
	return s.raw, err
}

func (s jsonSource) lineAt(path []string) int {
	if as, ok := s.yaml(); ok {
		return as.lineAt(path)
	}
	return s.line()
}

// yaml returns the value as YAML, which has lines: most JSON is YAML.
func (s jsonSource) yaml() (yamlSource, bool) {
	var n yaml.Node
	before := bytes.Repeat([]byte("\n"), s.line()-1)
	if err := yaml.Unmarshal(append(before, s.raw...), &n); err != nil || len(n.Content) == 0 {
		return yamlSource{}, false
	}
	return yamlSource{n.Content[0]}, true
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
