package jsonpath

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Sort sorts objects by the first of the values that the path of --sort-by selects in each. Objects without
// a value are first, but at least one must have one. Values that have no order are refused.
func Sort[T any](objects []T, values func(T) []any) error {
	if len(objects) > 0 && !slices.ContainsFunc(objects, func(o T) bool { return len(values(o)) > 0 }) {
		return errors.New("no object has a value at this path")
	}
	var unordered error
	slices.SortStableFunc(objects, func(a, b T) int {
		x, y := values(a), values(b)
		if len(x) == 0 || len(y) == 0 {
			return cmp.Compare(len(x), len(y))
		}
		order, err := Compare(x[0], y[0])
		unordered = cmp.Or(unordered, err)
		return order
	})
	return unordered
}

// Compare orders two values for --sort-by, as kubectl does: null first, numbers by
// size, quantities such as 100Mi by size, and other strings by their text, which is
// the order of times. Other values have no order.
func Compare(a, b any) (int, error) {
	switch {
	case a == nil && b == nil:
		return 0, nil
	case a == nil:
		return -1, nil
	case b == nil:
		return 1, nil
	}
	x, xIsText := a.(string)
	y, yIsText := b.(string)
	if xIsText && yIsText {
		return compareTexts(x, y), nil
	}
	i, xIsInteger := a.(int64)
	j, yIsInteger := b.(int64)
	if xIsInteger && yIsInteger {
		return cmp.Compare(i, j), nil
	}
	f, xIsNumber := float(a)
	g, yIsNumber := float(b)
	if xIsNumber && yIsNumber {
		return cmp.Compare(f, g), nil
	}
	return 0, fmt.Errorf("%v and %v have no order: only two numbers, or two strings, have", a, b)
}

func float(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case json.Number:
		f, _ := v.Float64() // infinite if it is too large
		return f, true
	}
	return 0, false
}

// compareTexts compares quantities by size, and other texts by their bytes.
func compareTexts(a, b string) int {
	x, errX := resource.ParseQuantity(a)
	y, errY := resource.ParseQuantity(b)
	if errX != nil || errY != nil {
		return cmp.Compare(a, b)
	}
	return x.Cmp(y)
}
