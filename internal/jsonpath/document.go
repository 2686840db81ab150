package jsonpath

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/coppice-gc/coppice/internal/manifest"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Document returns the manifest of an object with the types that kubectl decodes:
// numbers are int64 or float64. A number that neither of them holds stays a
// json.Number, so that what is printed has all its digits.
func Document(o *coppicev1.Object) (any, error) {
	v, err := manifest.Generic(o)
	return typed(v), err
}

// typed gives the numbers of a value their types, in place.
func typed(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = typed(member)
		}
	case []any:
		for i, element := range v {
			v[i] = typed(element)
		}
	case json.Number:
		return number(v)
	}
	return v
}

func number(n json.Number) any {
	if i, err := n.Int64(); err == nil {
		return i
	}
	f, err := n.Float64()
	if err != nil || digits(n.String()) != digits(strconv.FormatFloat(f, 'e', -1, 64)) {
		return n
	}
	return f
}

// digits returns the digits of a number without its sign, its exponent, and the zeros
// at its ends.
func digits(number string) string {
	mantissa, _, _ := strings.Cut(strings.ToLower(number), "e")
	return strings.Trim(strings.NewReplacer("-", "", ".", "").Replace(mantissa), "0")
}
