package oracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"
)

// call is a request as a script spells it. Reading an argument removes it, so that used
// finds misspelt arguments.
type call struct {
	verb   Verb
	kind   Kind
	name   string
	values map[string][]string
}

func parseCall(verb string, args []datadriven.CmdArg) (*call, error) {
	c := &call{verb: Verb(verb), values: map[string][]string{}}
	if !slices.Contains([]Verb{Create, Update, UpdateStatus, Patch, Delete}, c.verb) {
		return nil, fmt.Errorf("there is no command %q", verb)
	}
	for _, arg := range args {
		plural, name, is := strings.Cut(arg.Key, "/")
		if !is || arg.Vals != nil {
			c.values[arg.Key] = arg.Vals
			continue
		}
		kind, known := kindOf(func(k Kind) bool { return k.Plural == plural })
		if !known {
			return nil, fmt.Errorf("there are no %s", plural)
		}
		if c.kind.Kind != "" {
			return nil, fmt.Errorf("%s is of one object", verb)
		}
		c.kind, c.name = kind, name
	}
	if c.kind.Kind == "" {
		return nil, fmt.Errorf("%s what?", verb)
	}
	return c, nil
}

// used returns an error if an argument was not read.
func (c *call) used() error {
	for _, key := range slices.Sorted(maps.Keys(c.values)) {
		return fmt.Errorf("%s does not take %q", c.verb, key)
	}
	return nil
}

func (c *call) has(key string) bool {
	_, ok := c.values[key]
	return ok
}

// flag reads a word without a value.
func (c *call) flag(key string) bool {
	has := c.has(key)
	delete(c.values, key)
	return has
}

// list reads key=(a, b). key=() is the empty list.
func (c *call) list(key string) []string {
	list := c.values[key]
	delete(c.values, key)
	if len(list) == 1 && list[0] == "" {
		return []string{}
	}
	return list
}

// text reads key=value.
func (c *call) text(key string) string { return expand(strings.Join(c.list(key), ", ")) }

// expand replaces 254*n by 254 repetitions of n.
func expand(text string) string {
	count, word, ok := strings.Cut(text, "*")
	if n, err := strconv.Atoi(count); ok && err == nil {
		return strings.Repeat(word, n)
	}
	return text
}

// number reads key=12.
func (c *call) number(key string) (int64, error) {
	n, err := strconv.ParseInt(c.text(key), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", key, err)
	}
	return n, nil
}

// deleteOptions returns the body of a DELETE, nil if the script sets no option.
func (c *call) deleteOptions(stored Object) ([]byte, error) {
	options, preconditions := map[string]any{}, map[string]any{}
	if c.has("policy") {
		options["propagationPolicy"] = c.text("policy")
	}
	if c.has("orphanDependents") {
		options["orphanDependents"] = c.text("orphanDependents") == "true"
	}
	if c.has("grace") {
		seconds, err := c.number("grace")
		if err != nil {
			return nil, err
		}
		options["gracePeriodSeconds"] = seconds
	}
	if c.has("dryRun") {
		options["dryRun"] = c.list("dryRun")
	}
	if c.flag("dry-run") {
		options["dryRun"] = []string{"All"}
	}
	for key, field := range map[string]string{"uid": "uid", "rv": "resourceVersion"} {
		if c.has(key) {
			preconditions[field] = c.orIts(key, field, stored)
			options["preconditions"] = preconditions
		}
	}
	if len(options) == 0 {
		return nil, nil
	}
	return json.Marshal(options)
}

// orIts reads key=value, where "its" stands for the stored value.
func (c *call) orIts(key, field string, stored Object) string {
	if text := c.text(key); text != "its" {
		return text
	}
	return stored.text(field)
}
