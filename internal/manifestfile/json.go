package manifestfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"

	"go.yaml.in/yaml/v3"

	"github.com/coppice-gc/coppice/internal/codec/jsonvalue"
)

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

// json calls f with each of the values of JSON with which a text begins, and returns where the last one ends.
func (t text) json(f func(source)) (end int, err error) {
	d := json.NewDecoder(bytes.NewReader(t.data))
	lines := &lines{text: t, line: t.before + 1}
	for {
		var raw json.RawMessage
		err := d.Decode(&raw)
		var bad *json.SyntaxError
		switch {
		case errors.Is(err, io.EOF):
			return len(t.data), nil
		case errors.As(err, &bad):
			return end, &SyntaxError{At: t.at(int(bad.Offset) - 1), What: "invalid JSON: " + bad.Error()}
		case err != nil:
			return end, &SyntaxError{At: t.at(len(t.data)), What: "invalid JSON: it ends in the middle of a value"}
		}
		end = int(d.InputOffset())
		if !isNull(raw) {
			f(jsonSource{value: raw, offset: end - len(raw), lines: lines})
		}
	}
}

// lines counts the lines of a text.
type lines struct {
	text         text
	offset, line int // where it has been last
}

// at returns the line of an offset. It reads the text between this offset and the last one.
func (l *lines) at(offset int) int {
	if offset < l.offset {
		l.line -= bytes.Count(l.text.data[offset:l.offset], newline)
	} else {
		l.line += bytes.Count(l.text.data[l.offset:offset], newline)
	}
	l.offset = offset
	return l.line
}

// jsonSource is a value in JSON. A member of an object also has a name.
type jsonSource struct {
	name   string
	value  json.RawMessage
	offset int
	lines  *lines
}

func isNull(raw json.RawMessage) bool { return bytes.Equal(raw, []byte("null")) }

func (s jsonSource) line() int { return s.lines.at(s.offset) }

func (s jsonSource) isObject() bool { return s.value[0] == '{' }

// parts iterates over the members of an object or the items of an array.
func (s jsonSource) parts() iter.Seq[jsonSource] {
	return func(yield func(jsonSource) bool) {
		d := json.NewDecoder(bytes.NewReader(s.value))
		open, _ := d.Token()
		for d.More() {
			part := jsonSource{lines: s.lines}
			if open == json.Delim('{') {
				name, _ := d.Token()
				part.name, _ = name.(string)
			}
			_ = d.Decode(&part.value)
			part.offset = s.offset + int(d.InputOffset()) - len(part.value)
			if !yield(part) {
				return
			}
		}
	}
}

// text returns the text of a value that is a string, and "" for any other.
func (s jsonSource) text() (text string) {
	if json.Unmarshal(s.value, &text) != nil {
		return ""
	}
	return text
}

func (s jsonSource) list() (apiVersion, kind string, items []source, ok bool, err error) {
	if !s.isObject() {
		return "", "", nil, false, nil
	}
	members := map[string]jsonSource{}
	for m := range s.parts() {
		if _, twice := members[m.name]; twice {
			err = s.twice(m.name)
		}
		members[m.name] = m
	}
	list, ok := members["items"]
	kind = members["kind"].text()
	if _, is := listOf(kind); !ok || !is {
		return "", "", nil, false, nil
	}
	switch {
	case err != nil || isNull(list.value):
	case list.value[0] != '[':
		err = &nodeError{list.line(), errItems.Error()}
	default:
		for item := range list.parts() {
			items = append(items, item)
		}
	}
	return members["apiVersion"].text(), kind, items, true, err
}

func (s jsonSource) json() ([]byte, error) {
	_, duplicates, err := jsonvalue.Normalize(s.value)
	if err == nil && len(duplicates) > 0 {
		err = s.twice(duplicates[0])
	}
	return s.value, err
}

// twice returns the error of a name that is there twice, with a line if the value is YAML as well.
func (s jsonSource) twice(name string) error {
	if as, ok := s.yaml(); ok {
		if _, err := as.json(); err != nil {
			return err
		}
	}
	return errTwice(name)
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
	if err := yaml.Unmarshal(s.value, &n); err != nil || len(n.Content) == 0 {
		return yamlSource{}, false
	}
	return yamlSource{n: n.Content[0], before: s.line() - 1}, true
}
