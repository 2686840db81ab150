package manifests_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"unicode/utf16"
)

func pick(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }

// seldom reports true once in n times.
func seldom(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

// drawn is a file.
type drawn struct {
	text string
	data []byte // text, possibly in UTF-16
	// joined: a document follows another without a separator, or an end of a document.
	joined bool
}

func draw(r *rand.Rand) (d drawn) {
	var b strings.Builder
	if seldom(r, 4) {
		b.WriteString("\ufeff")
	}
	for range r.IntN(4) {
		b.WriteString(document(r))
		if seldom(r, 30) {
			b.WriteString(pick(r, "", "\n", " ", "...\n", "...\n---\n"))
			d.joined = true
		} else {
			b.WriteString(separator(r))
		}
		if seldom(r, 30) {
			b.WriteString("\ufeff")
		}
	}
	b.WriteString(document(r))
	d.text = b.String()
	if seldom(r, 4) {
		d.text = strings.ReplaceAll(d.text, "\n", "\r\n")
	}
	if seldom(r, 20) { // spoiled
		at := r.IntN(len(d.text) + 1)
		d.text = d.text[:at] + pick(r, "{", "}", "[", ":", "-", "\t", " ", "\n", "#", "'", "\"", ",", "*", "\u00a0") + d.text[at:]
	}
	d.data = []byte(d.text)
	if seldom(r, 10) {
		d.data = inUTF16(d.text, seldom(r, 2))
	}
	return d
}

func inUTF16(text string, bigEndian bool) (data []byte) {
	for _, u := range utf16.Encode([]rune("\ufeff" + strings.TrimPrefix(text, "\ufeff"))) {
		low, high := byte(u), byte(u>>8)
		if bigEndian {
			low, high = high, low
		}
		data = append(data, low, high)
	}
	return data
}

func separator(r *rand.Rand) string {
	if seldom(r, 40) {
		return pick(r, "\n--- x\n", "\n---x\n")
	}
	return pick(r, "\n---\n", "\n---\n---\n", "\n--- \n", "\n--- # comment\n", "\n---\t\n")
}

func document(r *rand.Rand) string {
	switch r.IntN(12) {
	case 0:
		return pick(r, "", "# comment\n", "\n\n", "null\n", "~\n", "{}\n", "[]\n", "text\n", "3\n")
	case 1, 2:
		return inJSON(object(r, 2), "") + pick(r, "", "\n", "\n", " # comment\n")
	case 3, 4:
		return inJSON(object(r, 2), "  ") + "\n"
	case 5, 6:
		return flow(r, object(r, 2)) + "\n"
	}
	return block(r, object(r, 2), "")
}

// members are the members of an object in their order; a name may occur twice.
type members []struct {
	name  string
	value any // members, []any or a scalar: the texts in YAML and in JSON
}

type scalar struct{ yaml, json string }

func (m *members) add(name string, value any) {
	*m = append(*m, struct {
		name  string
		value any
	}{name, value})
}

func plain(s string) scalar { return scalar{s, quoted(s)} }

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a text
	}
	return string(b)
}

// object draws an object or a list of objects.
func object(r *rand.Rand, depth int) members {
	var m members
	isList := depth > 0 && seldom(r, 4)
	kind := pick(r, "Pod", "Pod", "ConfigMap", "AllowList")
	if isList {
		kind = pick(r, "List", "PodList")
	}
	if !seldom(r, 60) || isList {
		m.add("apiVersion", plain(pick(r, "v1", "apps/v1")))
	}
	if !seldom(r, 60) || isList {
		m.add("kind", plain(kind))
	}
	if isList {
		switch {
		case seldom(r, 8):
			m.add("items", scalar{pick(r, "", "null", "~"), "null"})
		case !seldom(r, 20):
			items := make([]any, r.IntN(4))
			for i := range items {
				items[i] = object(r, depth-1)
				if seldom(r, 40) {
					items[i] = value(r, 0)
				}
			}
			m.add("items", items)
		}
		return m
	}
	if !seldom(r, 10) {
		meta := members{}
		meta.add("name", plain(pick(r, "a", "b", "web")))
		if seldom(r, 4) {
			labels := members{}
			labels.add(pick(r, "app", "tier"), plain(pick(r, "x", "z")))
			meta.add("labels", labels)
		}
		if seldom(r, 40) {
			meta.add(pick(r, "name", "unknown", "uid", "labels"), value(r, 1))
		}
		m.add("metadata", meta)
	}
	for _, name := range []string{"spec", "data", "status", "extra"} {
		if seldom(r, 3) {
			m.add(name, value(r, 3))
		}
	}
	if seldom(r, 40) {
		m.add(pick(r, "namespace", "kind", "items", "Items"), value(r, 1))
	}
	return m
}

var scalars = []scalar{
	{"a", `"a"`}, {"'a: b'", `"a\/b"`}, {`"a\tb"`, `"a\tb"`}, {`"\u00e9"`, `"\u00e9"`}, {"é", `"é"`}, {"\U0001f600", `"\ud83d\ude00"`}, {"a b # comment", `"#"`},
	{"1", "1"}, {"-1", "-1"}, {"1.5", "1.50"}, {"1e3", "1e3"}, {".5", "0.5"}, {"+1", "1E+2"}, {"0644", "0"}, {"0o17", "7"}, {"0x1f", "31"}, {"0b11", "3"}, {"1_000", "1000"}, {"1:20", "80"},
	{"9007199254740993", "9007199254740993"}, {"12345678901234567890", "12345678901234567890"}, {"1.", "1"}, {"08", "8"}, {"1e", `"1e"`}, {"-0", "-0"},
	{"yes", "true"}, {"no", "false"}, {"on", "true"}, {"Off", "false"}, {"y", `"y"`}, {"n", `"n"`}, {"True", "true"}, {"FALSE", "false"}, {"null", "null"}, {"~", "null"}, {"Null", "null"}, {"", "null"},
	{"2001-01-01", `"2001-01-01"`}, {"2001-01-01T00:00:00Z", `""`}, {"!!str 1", `"1"`}, {"!!binary aGk=", `"hi"`}, {"!!float 1", "1"},
	{"'yes'", `"yes"`}, {`"1"`, `"1"`}, {"'it''s'", `"it's"`}, {"''", `""`}, {"=", `"="`}, {"<<", `"<<"`}, {"a:b", `"a:b"`},
}

// bad are scalars that are refused, or that are not read as kubectl reads them.
var bad = []scalar{
	{".inf", "1"}, {".nan", "nan"}, {"@", "'"}, {"*gone", "1"}, {"%", "%"}, {"\u00a0", "\"\u00a0\""}, {"!x y", `"y"`}, {"-", `"-"`}, {"!!int '1'", "1"}, {"[", `"\x"`}, {"a: b", "]"},
}

// value draws a value of a member or an element.
func value(r *rand.Rand, depth int) any {
	switch n := r.IntN(8); {
	case n < 3 && depth > 0:
		m := members{}
		for i := range r.IntN(4) {
			name := string(rune('a' + i))
			if seldom(r, 60) {
				name = "a"
			}
			if seldom(r, 60) {
				name = pick(r, "yes", "1", "1.0", "0x1f", "~", "null", "a b", "'q'", "on", "true", "-a", "<<")
			}
			m.add(name, value(r, depth-1))
		}
		return m
	case n == 3 && depth > 0:
		list := make([]any, r.IntN(4))
		for i := range list {
			list[i] = value(r, depth-1)
		}
		return list
	case seldom(r, 2):
		return plain(pick(r, "a", "b", "x y", "1", "v1"))
	case seldom(r, 40):
		return bad[r.IntN(len(bad))]
	}
	return scalars[r.IntN(len(scalars))]
}

// inJSON writes a value as JSON, in lines if there is an indentation.
func inJSON(v any, indent string) string {
	var parts []string
	open, end := "{", "}"
	switch v := v.(type) {
	case scalar:
		return v.json
	case []any:
		open, end = "[", "]"
		for _, item := range v {
			parts = append(parts, inJSON(item, deeper(indent)))
		}
	case members:
		for _, m := range v {
			parts = append(parts, quoted(m.name)+": "+inJSON(m.value, deeper(indent)))
		}
	}
	if len(parts) == 0 || indent == "" {
		return open + strings.Join(parts, ",") + end
	}
	return open + "\n" + indent + strings.Join(parts, ",\n"+indent) + "\n" + indent[2:] + end
}

func deeper(indent string) string {
	if indent == "" {
		return ""
	}
	return indent + "  "
}

// flow writes a value as YAML in braces.
func flow(r *rand.Rand, v any) string {
	var parts []string
	switch v := v.(type) {
	case scalar:
		if seldom(r, 4) {
			return v.json
		}
		return strings.TrimSuffix(v.yaml, " # comment")
	case []any:
		for _, item := range v {
			parts = append(parts, flow(r, item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case members:
		for _, m := range v {
			parts = append(parts, m.name+": "+flow(r, m.value))
		}
	}
	return "{" + strings.Join(parts, ", ") + pick(r, "", "", ",") + "}"
}

// block writes a value as YAML in lines. Each line begins with the indentation.
func block(r *rand.Rand, v any, indent string) string {
	var b strings.Builder
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			b.WriteString(indent + "-" + child(r, item, indent))
		}
	case members:
		for i, m := range v {
			if seldom(r, 20) {
				b.WriteString(pick(r, "", indent, "   ") + "# comment: x\n")
			}
			anchor := fmt.Sprintf("m%d", i)
			switch _, isMembers := m.value.(members); {
			case isMembers && seldom(r, 30):
				b.WriteString(indent + m.name + ": &" + anchor + child(r, m.value, indent) + indent + pick(r, "again", "<<", "again", "<<", "*m1 ") + ": *" + anchor + "\n")
			case seldom(r, 40):
				b.WriteString(indent + m.name + ": &" + anchor + " x\n" + indent + "also: *" + pick(r, anchor, anchor, anchor, "m0") + "\n")
			default:
				b.WriteString(indent + m.name + ":" + child(r, m.value, indent))
			}
		}
	}
	return b.String()
}

// child writes the value of a member or an element, after its name or dash.
func child(r *rand.Rand, v any, indent string) string {
	switch v := v.(type) {
	case scalar:
		if seldom(r, 10) {
			return pick(r, " |", " >", " |-", " >+") + "\n" + indent + "  first\n" + indent + "  " + pick(r, "second", " second", "# second", "---") + "\n" + pick(r, "", "\n")
		}
		return pick(r, " ", " ", "  ") + v.yaml + "\n"
	case []any:
		if len(v) == 0 {
			return " []\n"
		}
	case members:
		if len(v) == 0 {
			return " {}\n"
		}
	}
	if seldom(r, 10) {
		return " " + flow(r, v) + "\n"
	}
	return "\n" + block(r, v, indent+pick(r, "  ", "  ", " ", "    "))
}
