package manifestfile_test

import (
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/coppice-gc/coppice/internal/manifestfile"
)

// inUTF16 returns a text in UTF-16 with a byte order mark.
func inUTF16(text string, bigEndian bool) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune("\ufeff" + text)) {
		low, high := byte(u), byte(u>>8)
		if bigEndian {
			low, high = high, low
		}
		b.WriteByte(low)
		b.WriteByte(high)
	}
	return b.String()
}

const (
	podA     = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n"
	readA    = `f:1 {"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}` + "\n"
	jsonA    = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`
	readData = `{"apiVersion":"v1","data":{"a":"\/\ud83d\ude00"},"kind":"X","metadata":{}}` + "\n"
)

// Files are read as other programs write them, and as people join them.
func TestReadFilesOfOtherPrograms(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, in, want string }{
		{"byte order mark", "\ufeff" + podA, readA},
		{"byte order mark before JSON", "\ufeff" + jsonA, readA},
		{"byte order marks of joined files", "\ufeff---\n" + podA + "\ufeff---\n\ufeff" + podA, strings.ReplaceAll(readA, "f:1", "f:2") + strings.ReplaceAll(readA, "f:1", "f:7")},
		{"byte order mark before JSON in a stream", podA + "---\n\ufeff" + jsonA, readA + strings.ReplaceAll(readA, "f:1", "f:6")},
		{"UTF-16, little endian", inUTF16(podA+"# \U0001f600\n", false), readA},
		{"UTF-16, big endian", inUTF16(jsonA, true), readA},
		{"UTF-16 without a mark", inUTF16(podA, false)[2:], "syntax f:1: neither YAML nor JSON: the character U+0000 is in no text; save the file as UTF-8, or as UTF-16 with a byte order mark\n"},
		{"CRLF", strings.ReplaceAll(podA+"data:\n  a: |\n    x\n    y\n---\n"+jsonA, "\n", "\r\n"),
			`f:1 {"apiVersion":"v1","data":{"a":"x\ny\n"},"kind":"Pod","metadata":{"name":"a"}}` + "\n" + strings.ReplaceAll(readA, "f:1", "f:10")},
		{"JSON, separated", jsonA + "\n---\n" + jsonA + "\n" + jsonA + "\n--- # more\n" + jsonA, readA + strings.ReplaceAll(readA, "f:1", "f:3") + strings.ReplaceAll(readA, "f:1", "f:4") + strings.ReplaceAll(readA, "f:1", "f:6")},
		{"JSON, one after the other", jsonA + jsonA + "\n\n" + jsonA + "\n", readA + readA + strings.ReplaceAll(readA, "f:1", "f:3")},
		{"JSON, a comment, YAML", jsonA + " # a comment\n" + podA, readA + strings.ReplaceAll(readA, "f:1", "f:2")},
		{"escapes of JSON in a stream of YAML", "---\n" + `{"apiVersion":"v1","kind":"X","data":{"a":"\/\ud83d\ude00"}}` + "\n", "f:2 " + readData},
		{"YAML in braces", `{"apiVersion": v1, "kind": Pod, metadata: {name: a},}`, readA},
		{"words of YAML 1.1", "apiVersion: v1\nkind: Pod\nspec: [y, N, on, 'y', <<]\n", `f:1 {"apiVersion":"v1","kind":"Pod","metadata":{},"spec":[true,false,true,"y","<<"]}` + "\n"},
		{"JSON, YAML on its line", jsonA + " " + podA, readA + readA},
		{"the end of a document", podA + "...\n---\n" + podA + "...\n" + podA, readA + strings.ReplaceAll(readA, "f:1", "f:7") + strings.ReplaceAll(readA, "f:1", "f:12")},
		{"text after a separator", podA + "--- {a: b}\n", readA + "syntax f:5: invalid YAML: \"{a: b}\" follows --- on its line: begin the document on the next line\n"},
		{"an anchor of another document", "apiVersion: &a v1\nkind: Pod\n---\napiVersion: *a\nkind: Pod\n", "f:1 {\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{}}\nsyntax f:4: invalid YAML: unknown anchor 'a' referenced\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := show(manifestfile.Read("f", []byte(tc.in))); got != tc.want {
				t.Errorf("read as\n%swant\n%s", got, tc.want)
			}
		})
	}
}

func TestReadLists(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, in, want string }{
		{"no items", "apiVersion: v1\nkind: PodList\nitems: []\n---\napiVersion: v1\nkind: List\nitems:\n---\n{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":null}\n", ""},
		{"a List without items", "apiVersion: v1\nkind: List\n---\n" + `{"apiVersion":"v1","kind":"List"}`, `error f:1: a List has items: this one has no member of this name
error f:4: a List has items: this one has no member of this name
`},
		{"items that are no list", "apiVersion: v1\nkind: List\nitems: {}\n---\n" + `{"apiVersion":"v1","kind":"List","items":"x"}`, `error f:3: items: must be a list
error f:5: items: must be a list
`},
		{"a kind that is no list", "apiVersion: example.com/v1\nkind: AllowList\nspec: {items: [a]}\n", `f:1 {"apiVersion":"example.com/v1","kind":"AllowList","metadata":{},"spec":{"items":["a"]}}
`},
		{"items twice", "apiVersion: v1\nkind: List\nitems: []\nitems: [1]\n---\n" + `{"apiVersion":"v1","kind":"List","items":[],"items":[1]}`, `error f:4: "items" is there already
error f:6: "items" is there already
`},
		{"Items in capitals", `{"apiVersion":"v1","kind":"AList","Items":[1]}`, `f:1 {"apiVersion":"v1","Items":[1],"kind":"AList","metadata":{}}
`},
		{"one line of JSON", `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"List","items":[null,` + jsonA + `]},{"kind":"Pod"}]}`, `error f:1: items[0]: items[0]: not an object: a manifest has apiVersion, kind and metadata
` + readA + `error f:1: items[1]: apiVersion is missing: a manifest says what it is by apiVersion and kind (Pod)
`},
		{"one line of YAML", `{apiVersion: v1, kind: List, items: [~, {apiVersion: v1, kind: Pod, spec: !x y}]}`, `error f:1: items[0]: not an object: a manifest has apiVersion, kind and metadata
error f:1: items[1]: the tag !x has no meaning in a manifest
`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := show(manifestfile.Read("f", []byte(tc.in))); got != tc.want {
				t.Errorf("read as\n%swant\n%s", got, tc.want)
			}
		})
	}
}

// A mistake that looks like correct YAML is an error.
func TestReadMistakes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, in, want string }{
		{"indented with no-break spaces", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n\u00a0\u00a0a: b\n", "error f:6: U+00A0 NO-BREAK SPACE in column 1: write a space in its place, or the text in quotes\n"},
		{"no member any more", "---\napiVersion: v1\nkind:\u00a0Pod\n", "syntax f:3: invalid YAML: could not find expected ':'; U+00A0 NO-BREAK SPACE is in line 3, column 6\n"},
		{"in the name of a member", "apiVersion: v1\nkind: Pod\nspec:\n  a\u200b: b\n", "error f:4: U+200B ZERO WIDTH SPACE in column 4: write a space in its place, or the text in quotes\n"},
		{"after a colon", "apiVersion: v1\nkind: Pod\nspec:\n  a:\u00a0b\n", "error f:4: U+00A0 NO-BREAK SPACE in column 5: write a space in its place, or the text in quotes\n"},
		{"before a value", "apiVersion: v1\nkind: Pod\nspec:\n  a: \u00a0b\n", "error f:4: U+00A0 NO-BREAK SPACE in column 6: write a space in its place, or the text in quotes\n"},
		{"after a value", "apiVersion: v1\nkind: Pod\nspec:\n  - a: b\ufeff\n", "error f:4: U+FEFF ZERO WIDTH NO-BREAK SPACE in column 9: write a space in its place, or the text in quotes\n"},
		{"within a text", "apiVersion: v1\nkind: Pod\nspec: {a: 5\u00a0€, b: \"\u00a0\"}\n", "f:1 {\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{},\"spec\":{\"a\":\"5\u00a0€\",\"b\":\"\u00a0\"}}\n"},
		{"namespace next to metadata", "apiVersion: v1\nkind: Pod\nnamespace: shop\nmetadata: {name: a}\n", "error f:1: namespace stands next to metadata: move it into metadata\n"},
		{"labels of a template", "apiVersion: template.openshift.io/v1\nkind: Template\nlabels: {a: b}\n", "f:1 {\"apiVersion\":\"template.openshift.io/v1\",\"labels\":{\"a\":\"b\"},\"kind\":\"Template\",\"metadata\":{}}\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := show(manifestfile.Read("f", []byte(tc.in))); got != tc.want {
				t.Errorf("read as\n%swant\n%s", got, tc.want)
			}
		})
	}
}
