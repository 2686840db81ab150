package jsonpath

import (
	"cmp"
	"encoding/json"
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
	if text == "" {
		return nil, fmt.Errorf("custom-columns names no columns: write custom-columns=NAME:.metadata.name")
	}
	var columns []Column
	for _, part := range splitOutside(text) {
		header, path, ok := strings.Cut(part, ":")
		if !ok || header == "" {
			return nil, fmt.Errorf("custom-columns: %q is not HEADER:PATH, such as NAME:.metadata.name", part)
		}
		p, err := ParsePath(path)
		if err != nil {
			return nil, fmt.Errorf("custom-columns: column %s: %w", header, err)
		}
		columns = append(columns, Column{Header: header, path: p})
	}
	return columns, nil
}

// splitOutside splits at commas that are not in brackets.
func splitOutside(text string) (parts []string) {
	depth, from := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '[':
			depth++
		case ']':
			depth--
		case ',':
			if depth == 0 {
				parts, from = append(parts, text[from:i]), i+1
			}
		}
	}
	return append(parts, text[from:])
}

// Value returns the column's text for a document: values separated by commas, or
// <none>.
func (c Column) Value(document any) string {
	var list []string
	for _, v := range c.path.Select(document) {
		if s := Text(v); s != "" {
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		return "<none>"
	}
	return strings.Join(list, ",")
}

// Compare orders two lists of selected values, for --sort-by: those without a value
// first, then numbers by size, then everything else by its text.
func Compare(a, b []any) int {
	if len(a) == 0 || len(b) == 0 {
		return cmp.Compare(len(a), len(b))
	}
	x, xNumber := number(a[0])
	y, yNumber := number(b[0])
	switch {
	case xNumber && yNumber:
		return cmp.Compare(x, y)
	case xNumber != yNumber:
		if xNumber {
			return -1
		}
		return 1
	}
	return strings.Compare(Text(a[0]), Text(b[0]))
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	}
	return 0, false
}
