// Package selector parses and matches label selectors, in the grammar of
// Kubernetes' labels.Parse:
//
//	app=web,tier!=db,env in (prod,test),region notin (eu),critical,!legacy,replicas>2
//
// Unlike Kubernetes, it refuses a selector of blanks, which is often an unset variable.
// A missing label satisfies != and notin, and no other requirement but !key. Keys
// and values have the syntax of labels.
package selector

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/coppice-gc/coppice/internal/labelname"
)

// Selector matches sets of labels. The zero value matches all.
type Selector []requirement

type requirement struct {
	key    string
	op     operator
	values []string // sorted, of in and notIn
	bound  int64    // of above and below
}

type operator uint8

const (
	exists operator = iota
	absent
	in
	notIn
	above
	below
)

// Matches reports whether labels satisfy all requirements.
func (s Selector) Matches(labels map[string]string) bool {
	for i := range s {
		if v, ok := labels[s[i].key]; !s[i].matches(v, ok) {
			return false
		}
	}
	return true
}

func (r *requirement) matches(v string, ok bool) bool {
	switch r.op {
	case exists:
		return ok
	case absent:
		return !ok
	case in:
		return ok && r.has(v)
	case notIn:
		return !ok || !r.has(v)
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if !ok || err != nil {
		return false
	}
	return r.op == above && n > r.bound || r.op == below && n < r.bound
}

func (r *requirement) has(v string) bool {
	_, found := slices.BinarySearch(r.values, v)
	return found
}

// require returns a requirement, if key and values are valid.
func require(key string, op operator, values []string) (r requirement, err error) {
	for _, v := range values {
		if !labelname.IsLabelValue(v) {
			return r, fmt.Errorf("%q is not the value of a label: it must be empty or consist of at most 63 alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character", shortened(v))
		}
	}
	r = requirement{key: key, op: op, values: values}
	if op != above && op != below {
		slices.Sort(r.values)
		r.values = slices.Compact(r.values)
		return r, nil
	}
	if r.bound, err = strconv.ParseInt(values[0], 10, 64); err != nil {
		return r, fmt.Errorf("%q must be an integer of 64 bits, as '>' and '<' compare integers", shortened(values[0]))
	}
	r.values = nil
	return r, nil
}
