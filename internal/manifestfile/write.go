package manifestfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/coppice-gc/coppice/internal/manifest"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// ToYAML writes the manifest of an object as kubectl does. Members are ordered by name. A
// text is quoted if YAML 1.1, which kubectl reads, would read it as another type.
func ToYAML(o *coppicev1.Object) ([]byte, error) {
	n, err := yamlNode(o)
	if err != nil {
		return nil, err
	}
	return encodeYAML(n)
}

// ToYAMLItem is ToYAML for an item of a list.
func ToYAMLItem(o *coppicev1.Object) ([]byte, error) {
	n, err := yamlNode(o)
	if err != nil {
		return nil, err
	}
	return encodeYAML(&yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{n}})
}

func encodeYAML(n *yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	e.CompactSeqIndent()
	if err := e.Encode(n); err != nil {
		return nil, fmt.Errorf("manifest as YAML: %w", err)
	}
	return b.Bytes(), e.Close()
}

func yamlNode(o *coppicev1.Object) (*yaml.Node, error) {
	v, err := manifest.Generic(o)
	if err != nil {
		return nil, err
	}
	return nodeOf(v), nil
}

func nodeOf(v any) *yaml.Node {
	switch v := v.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			n.Content = append(n.Content, textNode(name), nodeOf(v[name]))
		}
		if len(v) == 0 {
			n.Style = yaml.FlowStyle
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for _, item := range v {
			n.Content = append(n.Content, nodeOf(item))
		}
		if len(v) == 0 {
			n.Style = yaml.FlowStyle
		}
		return n
	case json.Number:
		tag := "!!int"
		if strings.ContainsAny(v.String(), ".eE") {
			tag = "!!float"
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: v.String()}
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(v)}
	case string:
		return textNode(v)
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
}

// sexagesimal matches what YAML 1.1 reads as a number to the base of 60.
var sexagesimal = regexp.MustCompile(`^[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?$`)

func textNode(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	if _, ok := oldBool(n); ok || s == "<<" || sexagesimal.MatchString(s) || !tame(s) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// tame reports whether the YAML package may choose the style of a text. It writes some
// other texts in a style that it cannot read, such as a block whose first line begins with
// a tab. A text that is quoted with escapes can always be read back.
func tame(s string) bool {
	for i, r := range s {
		if r != '\n' && !unicode.IsPrint(r) { // tabs, carriage returns, other separators of lines
			return false
		}
		if r == '\n' && (i == 0 || s[i-1] == ' ') { // a block would need an indentation indicator
			return false
		}
	}
	return !strings.HasPrefix(s, " ") && !strings.HasSuffix(s, " ")
}
