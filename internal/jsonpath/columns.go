package jsonpath

import (
	"fmt"
	"strings"
)

// Column is a column of a table that -o custom-columns describes.
type Column struct {
	Header string
	path   *Path
}

// ParseColumns reads a description of columns: "NAME:.metadata.name,PHASE:.status.phase".
func ParseColumns(text string) ([]Column, error) {
	var headers, paths []string
	for part := range strings.SplitSeq(text, ",") {
		header, path, ok := strings.Cut(part, ":")
		if !ok {
			return nil, fmt.Errorf("custom-columns: %q is not HEADER:PATH, such as NAME:.metadata.name", part)
		}
		headers, paths = append(headers, header), append(paths, path)
	}
	return columns(headers, paths)
}

// ReadColumns reads the description of columns that a file has: headers on its first
// line, their paths on the second.
func ReadColumns(text string) ([]Column, error) {
	first, rest, _ := strings.Cut(text, "\n")
	second, _, _ := strings.Cut(rest, "\n")
	headers, paths := strings.Fields(first), strings.Fields(second)
	if len(headers) == 0 || len(headers) != len(paths) {
		return nil, fmt.Errorf("custom-columns-file: the first line has %d headers and the second %d paths: write as many of both", len(headers), len(paths))
	}
	return columns(headers, paths)
}

func columns(headers, paths []string) ([]Column, error) {
	var list []Column
	for i, header := range headers {
		p, err := ParsePath(paths[i])
		if err != nil {
			return nil, fmt.Errorf("custom-columns: column %s: %w", header, err)
		}
		list = append(list, Column{header, p})
	}
	return list, nil
}

// Value returns the column's text for a document: values separated by commas, or
// <none>.
func (c Column) Value(document any) (string, error) {
	values, err := c.path.Select(document)
	if len(values) == 0 {
		return "<none>", err
	}
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = fmt.Sprint(v)
	}
	return strings.Join(texts, ","), nil
}
