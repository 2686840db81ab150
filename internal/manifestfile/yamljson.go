package manifestfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/coppice-gc/coppice/internal/manifest"
)

// nodeError says why a node of YAML cannot be written as JSON.
type nodeError struct {
	line int
	what string
}

func (e *nodeError) Error() string { return e.what }

// toJSON writes a node as JSON. It does not decode into Go's types first, so that numbers
// keep their digits and timestamps their spelling.
func toJSON(n *yaml.Node) ([]byte, error) {
	var c converter
	if err := c.value(n); err != nil {
		return nil, err
	}
	return c.out.Bytes(), nil
}

type converter struct{ out bytes.Buffer }

func (c *converter) value(n *yaml.Node) error {
	switch n.Kind {
	case yaml.AliasNode:
		return c.value(n.Alias)
	case yaml.MappingNode:
		return c.mapping(n)
	case yaml.SequenceNode:
		c.out.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				c.out.WriteByte(',')
			}
			if err := c.value(item); err != nil {
				return err
			}
		}
		c.out.WriteByte(']')
		return nil
	case yaml.ScalarNode:
		return c.scalar(n)
	}
	return &nodeError{n.Line, "not a value"}
}

func (c *converter) mapping(n *yaml.Node) error {
	members, err := membersOf(n, nil)
	if err != nil {
		return err
	}
	c.out.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			c.out.WriteByte(',')
		}
		if err := c.text(m.key); err != nil {
			return &nodeError{m.value.Line, err.Error()}
		}
		c.out.WriteByte(':')
		if err := c.value(m.value); err != nil {
			return err
		}
	}
	c.out.WriteByte('}')
	return nil
}

type mappingMember struct {
	key   string
	value *yaml.Node
	// merged: the member comes from "<<". A member of the mapping itself replaces it.
	merged bool
}

// membersOf returns the members of a mapping, including those that it merges. within are
// the mappings that are being merged.
func membersOf(n *yaml.Node, within []*yaml.Node) ([]mappingMember, error) {
	if len(within) > 100 {
		return nil, &nodeError{n.Line, "merges are nested too deeply"}
	}
	var members []mappingMember
	index := map[string]int{}
	add := func(m mappingMember, line int) error {
		at, ok := index[m.key]
		switch {
		case !ok:
			index[m.key] = len(members)
			members = append(members, m)
		case m.merged:
			// The first mapping that has the member wins.
		case members[at].merged:
			members[at] = m
		default:
			return &nodeError{line, fmt.Sprintf("%q is there already", m.key)}
		}
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.ShortTag() != "!!merge" {
			name, err := nameOf(resolved(key))
			if err != nil {
				return nil, err
			}
			if err := add(mappingMember{key: name, value: value}, key.Line); err != nil {
				return nil, err
			}
			continue
		}
		sources := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode {
			sources = value.Content
		}
		for _, s := range sources {
			s = resolved(s)
			if s.Kind != yaml.MappingNode {
				return nil, &nodeError{value.Line, "<< merges objects only"}
			}
			merged, err := membersOf(s, append(within, n))
			if err != nil {
				return nil, err
			}
			for _, m := range merged {
				m.merged = true
				if err := add(m, value.Line); err != nil {
					return nil, err
				}
			}
		}
	}
	return members, nil
}

// nameOf returns the name of a member: text, or a number or boolean that is spelled as in JSON.
func nameOf(key *yaml.Node) (string, error) {
	if key.Kind != yaml.ScalarNode {
		return "", &nodeError{key.Line, "the name of a member must be text"}
	}
	if err := checkPlain(key, true); err != nil {
		return "", err
	}
	value, err := toJSON(key)
	if err != nil {
		return "", err
	}
	if tag := key.ShortTag(); tag == "!!null" || value[0] != '"' && string(value) != key.Value {
		return "", &nodeError{key.Line, fmt.Sprintf("the name of a member must be text, and %s is not: write %q", key.Value, key.Value)}
	}
	return key.Value, nil
}

func (c *converter) text(s string) error {
	b, err := manifest.EncodeJSON(s)
	if err != nil {
		return err
	}
	c.out.Write(b)
	return nil
}

func (c *converter) scalar(n *yaml.Node) error {
	switch n.ShortTag() {
	case "!!null":
		c.out.WriteString("null")
		return nil
	case "!!bool":
		return c.decoded(n, new(bool))
	case "!!int", "!!float":
		if number := plainNumber(n.Value); json.Valid([]byte(number)) {
			c.out.WriteString(number)
			return nil
		}
		if n.ShortTag() == "!!int" {
			var v any
			return c.decoded(n, &v)
		}
		var f float64
		if n.Decode(&f) == nil && (math.IsInf(f, 0) || math.IsNaN(f)) {
			return &nodeError{n.Line, fmt.Sprintf("%s is not a number that JSON has", n.Value)}
		}
		return c.decoded(n, &f)
	case "!!str":
		if old, ok := oldBool(n); ok {
			n = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: old, Line: n.Line}
			return c.decoded(n, new(bool))
		}
		if err := checkPlain(n, false); err != nil {
			return err
		}
		return c.text(n.Value)
	case "!!timestamp", "!!merge":
		return c.text(n.Value)
	case "!!binary":
		var s string
		return c.decoded(n, &s)
	}
	return &nodeError{n.Line, fmt.Sprintf("the tag %s has no meaning in a manifest", n.Tag)}
}

// plainNumber returns a decimal number of YAML as JSON spells it, with all its digits.
func plainNumber(s string) string {
	s = strings.ReplaceAll(strings.TrimPrefix(s, "+"), "_", "")
	if strings.HasPrefix(s, ".") {
		return "0" + s
	}
	return s
}

func (c *converter) decoded(n *yaml.Node, into any) error {
	if err := n.Decode(into); err != nil {
		return &nodeError{n.Line, fmt.Sprintf("%q is not a %s", n.Value, n.ShortTag()[2:])}
	}
	b, err := manifest.EncodeJSON(into)
	if err != nil {
		return &nodeError{n.Line, err.Error()}
	}
	c.out.Write(b)
	return nil
}

// oldBool returns the boolean that a plain word is in YAML 1.1.
func oldBool(n *yaml.Node) (string, bool) {
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) != 0 {
		return "", false
	}
	switch n.Value {
	case "y", "Y", "yes", "Yes", "YES", "on", "On", "ON":
		return "true", true
	case "n", "N", "no", "No", "NO", "off", "Off", "OFF":
		return "false", true
	}
	return "", false
}

// member returns the member of a mapping with a name, nil if there is none.
func member(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return resolved(n.Content[i+1])
		}
	}
	return nil
}

// scalar returns the text of a node that is text, and "" for any other node.
func scalar(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}
