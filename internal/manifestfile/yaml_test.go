package manifestfile_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/manifestfile"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// show prints what Read returned, one line for each entry.
func show(entries []manifestfile.Entry, err error) string {
	var b strings.Builder
	for _, e := range entries {
		if e.Err != nil {
			fmt.Fprintf(&b, "error %v\n", e.Err)
			continue
		}
		raw, fail := manifest.ToJSON(e.Object)
		if fail != nil {
			raw = []byte(fail.Error())
		}
		fmt.Fprintf(&b, "%s %s\n", e.At, raw)
		if e.Foreign != nil {
			fmt.Fprintf(&b, "foreign %v\n", e.Foreign)
		}
	}
	if err != nil {
		fmt.Fprintf(&b, "syntax %v\n", err)
	}
	return b.String()
}

func TestRead(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, in, want string }{
		{"resourceVersion of another system", "apiVersion: v1\nkind: Pod\nmetadata: {resourceVersion: abc, name: a}\n",
			`f:1 {"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}` + "\n" + `foreign metadata.resourceVersion: "abc" is not a revision: a revision is a number` + "\n"},
		{"resourceVersion that is no text", "apiVersion: v1\nkind: Pod\nmetadata:\n  resourceVersion: {}\n", "error f:4: metadata.resourceVersion: must be a string, not object\n"},
		{"documents", `# a comment
---
apiVersion: v1
kind: Pod
metadata:
  name: a
---
---
# nothing
---
kind: Pod
apiVersion: v1
metadata: {name: b, labels: {"x": "1"}}
`, `f:3 {"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}
f:11 {"apiVersion":"v1","kind":"Pod","metadata":{"name":"b","labels":{"x":"1"}}}
`},
		{"lists", `apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: a}
- apiVersion: v1
  kind: List
  items:
  - {apiVersion: v1, kind: Pod, metadata: {name: b}}
- 7
---
apiVersion: apps/v1
kind: DeploymentList
items:
- metadata:
    name: c
`, `f:4 {"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}
f:10 {"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"}}
error f:11: items[2]: not an object: a manifest has apiVersion, kind and metadata
f:16 {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"c"}}
`},
		{"values", `apiVersion: v1
kind: X
spec:
  octal: 0644
  hex: 0x1F
  big: 9007199254740993
  huge: 123456789012345678901234567890
  float: 1.10
  exp: 1e3
  dot: .5
  sign: +1_234567890123456789012345678901234567890.5
  fraction: .1234567890123456789012345
  word: yes
  quoted: "no"
  tagged: !!str on
  time: 2024-05-06T07:08:09Z
  nothing: ~
  true: false
  1.10: x
  <<: &base {merged: 1, octal: 2}
  again: *base
  text: |
    one
    two
  binary: !!binary aGVsbG8=
`, `f:1 {"apiVersion":"v1","kind":"X","metadata":{},"spec":{"octal":420,"hex":31,"big":9007199254740993,"huge":123456789012345678901234567890,"float":1.10,"exp":1e3,"dot":0.5,"sign":1234567890123456789012345678901234567890.5,"fraction":0.1234567890123456789012345,"word":true,"quoted":"no","tagged":"on","time":"2024-05-06T07:08:09Z","nothing":null,"true":false,"1.10":"x","merged":1,"again":{"merged":1,"octal":2},"text":"one\ntwo\n","binary":"hello"}}
`},
		{"JSON", `{"apiVersion": "v1", "kind": "List", "items": [
	{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}},
	[],
	{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 3}}
]}
{"apiVersion": "v1",
	"kind": "Pod", "metadata": {"name": "b"}}
null
`, `f:2 {"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}
error f:3: items[1]: not an object: a manifest has apiVersion, kind and metadata
error f:4: items[2]: metadata.name: must be a string, not number
f:6 {"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"}}
`},
		{"braces of YAML", "{apiVersion: v1, kind: Pod,\n metadata: {name: a}}\n", `f:1 {"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}
`},
		{"no kind", "apiVersion: v1\nmetadata: {name: a}\n---\nkind: Pod\n", `error f:1: kind is missing: a manifest says what it is by apiVersion and kind
error f:4: apiVersion is missing: a manifest says what it is by apiVersion and kind (Pod)
`},
		{"not an object", "- 1\n---\nhello\n---\nkind: Pod\napiVersion: v1\nmetadata:\n  labels: x\n", `error f:1: not an object: a manifest has apiVersion, kind and metadata
error f:3: not an object: a manifest has apiVersion, kind and metadata
error f:8: metadata.labels: must be an object, not string
`},
		{"indentation", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n   namespace: b\n", `syntax f:5: invalid YAML: mapping values are not allowed in this context
`},
		{"tab", "apiVersion: v1\nkind: Pod\nmetadata:\n\tname: a\n", `syntax f:4: invalid YAML: found character that cannot start any token
`},
		{"after a document", "apiVersion: v1\nkind: Pod\n---\na: [1\n", `f:1 {"apiVersion":"v1","kind":"Pod","metadata":{}}
syntax f:4: invalid YAML: did not find expected ',' or ']'
`},
		{"first line", "a: b: c\n", `syntax f:1: invalid YAML: mapping values are not allowed in this context
`},
		{"not text", "a: b\nc: \x00\n", `syntax f:2: neither YAML nor JSON: the character U+0000 is in no text; save the file as UTF-8, or as UTF-16 with a byte order mark
`},
		{"not UTF-8", "a: b\nc: \xff\n", `syntax f:2: invalid YAML: the text is not UTF-8
`},
		{"JSON with a mistake", "{\"apiVersion\": \"v1\",\n\t\"kind\": Pod]\n", `syntax f:2: invalid JSON: invalid character 'P' looking for beginning of value
`},
		{"JSON that ends", "{\"apiVersion\": \"v1\",\n\"kind\"", `syntax f:2: invalid JSON: it ends in the middle of a value
`},
		{"twice", "apiVersion: v1\nkind: Pod\nspec:\n  a: 1\n  b: 2\n  a: 3\n", `error f:6: "a" is there already
`},
		{"key", "apiVersion: v1\nkind: Pod\nspec:\n  [a]: 1\n", `error f:4: the name of a member must be text
`},
		{"key of YAML 1.1", "apiVersion: v1\nkind: Pod\nspec:\n  a: 1\n  on: 1\n", `error f:5: the name of a member must be text, and on is not: write "on"
`},
		{"null key", "apiVersion: v1\nkind: Pod\nspec:\n  ~: 1\n", `error f:4: the name of a member must be text, and ~ is not: write "~"
`},
		{"twice in JSON", `{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Pod",
	"spec": {"a": 1,
		"b": {},
		"a": 2}}]}`, `error f:4: items[0]: "a" is there already
`},
		{"label that is a number", "kind: Pod\napiVersion: v1\nmetadata:\n  name: a\n  labels:\n    b: x\n    a/b.c: 1.10\n", `error f:7: metadata.labels: the value of "a/b.c" must be text, not 1.10: write "1.10"
`},
		{"annotation that is a boolean", `{"apiVersion": "v1", "kind": "Pod",
	"metadata": {"annotations": {
		"b": "x",
		"a": true}}}`, `error f:4: metadata.annotations: the value of "a" must be text, not true: write "true"
`},
		{"label that is an object", "kind: Pod\napiVersion: v1\nmetadata:\n  labels: {a: {}}\n", `error f:4: metadata.labels: the value of "a" must be text
`},
		{"nulls", `apiVersion: v1
kind: Pod
metadata:
  name: a
  uid: ~
  labels: {a: ~, b: ""}
  annotations: {a: ~}
  finalizers: ~
  ownerReferences: ~
  uses: ~
  expiresAt: ~
  protection: ~
  initializers: ~
  creationTimestamp: ~
spec: ~
status: ~
`, `f:1 {"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"b":""}}}
`},
		{"no number", "apiVersion: v1\nkind: Pod\nspec:\n  a: .inf\n", `error f:4: .inf is not a number that JSON has
`},
		{"tag", "apiVersion: v1\nkind: Pod\nspec:\n  a: !secret x\n", `error f:4: the tag !secret has no meaning in a manifest
`},
		{"itself", "apiVersion: v1\nkind: Pod\nspec: &a\n  b: *a\n", `syntax f:4: *a stands within itself
`},
		{"a list of itself", "apiVersion: v1\nkind: List\nitems: &a\n- {apiVersion: v1, kind: List, items: *a}\n", `syntax f:4: *a stands within itself
`},
		{"a merge of itself", "apiVersion: v1\nkind: Pod\nspec: &a\n  <<: *a\n", `syntax f:4: *a stands within itself
`},
		{"anchor", "apiVersion: v1\nkind: Pod\nspec: *gone\n", `syntax f:3: invalid YAML: unknown anchor 'gone' referenced
`},
		{"key of a block", "apiVersion: v1\nkind: Pod\nspec:\n  a: 1\n b: 2\n", `syntax f:5: invalid YAML: did not find expected key
`},
		{"empty", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := show(manifestfile.Read("f", []byte(tc.in))); got != tc.want {
				t.Errorf("read as\n%swant\n%s", got, tc.want)
			}
		})
	}
}

func TestReadPatch(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"spec": {"n": 123456789012345678901234567890, "f": 1.10}}`: `{"spec": {"n": 123456789012345678901234567890, "f": 1.10}}`,
		"spec: {m: 123456789012345678901234567890, f: 1.10}\n":       `{"spec":{"m":123456789012345678901234567890,"f":1.10}}`,
		"spec: {t: 2024-01-01, w: yes, v: n, o: 0644, z: ~}":         `{"spec":{"t":"2024-01-01","w":true,"v":false,"o":420,"z":null}}`,
		"---\n---\n# only one\nspec: ~\n":                            `{"spec":null}`,
		"spec: 1\n---\nspec: 2\n":                                    `f:3: a second document: there must be one`,
		`{"spec": 1}` + "\n" + `{"spec": 2}`:                         `f:2: a second document: there must be one`,
		"[1]":                                                        `f:1: not an object`,
		"hello":                                                      `f:1: not an object`,
		"null":                                                       `it is empty`,
		" ":                                                          `it is empty`,
		"spec:\n  a: 1\n  a: 2\n":                                    `f:3: "a" is there already`,
		"{\"a\": 1,\n\"a\": 2}":                                      `f:2: "a" is there already`,
		"spec:\n  ~: 1\n":                                            `f:2: the name of a member must be text, and ~ is not: write "~"`,
		"spec: {[a]: 1}":                                             `f:1: the name of a member must be text`,
		"metadata:\n  labels:\n    x: 5\n":                           `f:3: metadata.labels: the value of "x" must be text, not 5: write "5"`,
		`{"metadata": {"annotations": {"x": true, "y": null}}}`: `f:1: metadata.annotations: the value of "x" must be text, not true: write "true"`,
		"metadata: {labels: {x: ~}, annotations: ~}":            `{"metadata":{"labels":{"x":null},"annotations":null}}`,
		"metadata: 5": `f:1: metadata: must be an object, not number`,
		"a: b: c":     `f:1: invalid YAML: mapping values are not allowed in this context`,
	} {
		got, err := manifestfile.ReadPatch("f", []byte(in))
		if err != nil {
			got = []byte(err.Error())
		}
		if string(got) != want {
			t.Errorf("ReadPatch(%q):\n got %s\nwant %s", in, got, want)
		}
	}
}

// Read refuses a few lines of aliases that expand to gigabytes.
func TestReadBoundsAliases(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ first, next string }{
		"lists":         {"[" + strings.Repeat("lol,", 100) + "]", "[%s]"},
		"merges":        {"{lol: lol}", "{<<: [%s]}"},
		"lists of kind": {"{apiVersion: v1, kind: Pod}", "{apiVersion: v1, kind: List, items: [%s]}"},
	} {
		var b strings.Builder
		b.WriteString("apiVersion: v1\nkind: List\nitems:\n- &a0 " + tc.first + "\n")
		for i := range 12 {
			fmt.Fprintf(&b, "- &a%d "+tc.next+"\n", i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 10))
		}
		got := show(manifestfile.Read("f", []byte(b.String())))
		if !strings.HasPrefix(got, "syntax f:") || !strings.Contains(got, "aliases repeat too much") {
			t.Errorf("%s: read as %.200s", name, got)
		}
	}
}

// Lists in lists are read as deep as anything needs. The time that deeper ones take grows with the square of the depth.
func TestReadBoundsLists(t *testing.T) {
	t.Parallel()
	nested := func(depth int) string {
		return strings.Repeat(`{"apiVersion":"v1","kind":"List","items":[`, depth) + jsonA + strings.Repeat("]}", depth)
	}
	if got := show(manifestfile.Read("f", []byte(nested(10)))); got != readA {
		t.Errorf("read as %s", got)
	}
	for _, text := range []string{nested(11), "---\n" + nested(3000)} {
		if got := show(manifestfile.Read("f", []byte(text))); !strings.Contains(got, "lists stand in lists more than 10 deep") {
			t.Errorf("read as %.200s", got)
		}
	}
}

func TestToYAML(t *testing.T) {
	t.Parallel()
	o, err := manifest.FromJSON([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web","resourceVersion":"12","labels":{}},
		"data":{"b":"yes","a":"1","c":"x\ny\n","d":"12:30","e":"2024-01-01","f":"null","y":"n","g":""},
		"spec":{"big":9007199254740993,"f":1.50,"e":1e3,"list":[1,"a",{"x":[],"y":{}}],"no":null,"t":true}}`))
	must.Succeed(t, err)
	const want = `apiVersion: v1
data:
  a: "1"
  b: "yes"
  c: |
    x
    y
  d: "12:30"
  e: "2024-01-01"
  f: "null"
  g: ""
  "y": "n"
kind: ConfigMap
metadata:
  name: web
  resourceVersion: "12"
spec:
  big: 9007199254740993
  e: 1e3
  f: 1.50
  list:
  - 1
  - a
  - x: []
    "y": {}
  "no": null
  t: true
`
	got, err := manifestfile.ToYAML(o)
	must.Succeed(t, err)
	if string(got) != want {
		t.Errorf("written as\n%s\nwant\n%s", got, want)
	}
	item, err := manifestfile.ToYAMLItem(o)
	must.Succeed(t, err)
	if want := "- " + strings.ReplaceAll(strings.TrimSuffix(want, "\n"), "\n", "\n  ") + "\n"; string(item) != want {
		t.Errorf("as an item\n%s\nwant\n%s", item, want)
	}
}

// FuzzRead reads any text without a panic. If it is read, the objects are the same after
// they are written and read again.
func FuzzRead(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec: &x {a: 0644, b: *x}\n---\n- 1\n"))
	f.Add([]byte("kind: List\napiVersion: v1\nitems:\n- {apiVersion: v1, kind: Pod, data: {\"y\": \"yes\", m: 1e3, <<: {z: ~}}}\n"))
	f.Add([]byte(`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"x"},"data":{"a":"12:30"}}]}`))
	f.Add([]byte("a: !!binary aGk=\nb: !!timestamp 2024-01-01\nc: |\n  x\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		entries, _ := manifestfile.Read("f", in)
		for _, e := range entries {
			if e.Err != nil {
				continue
			}
			breaks := strings.FieldsFunc("x"+string(in), func(r rune) bool { return !strings.ContainsRune("\n\r\u0085\u2028\u2029", r) })
			if e.At.Line < 1 || e.At.Line > 1+len(strings.Join(breaks, "")) {
				t.Fatalf("line %d of %q", e.At.Line, in)
			}
			enc, err := manifestfile.ToYAML(e.Object)
			if err != nil {
				continue // JSON allows characters that YAML does not
			}
			again, err := manifestfile.Read("f", enc)
			if err != nil || len(again) != 1 || again[0].Err != nil {
				t.Fatalf("%q became\n%s\nwhich is read as %v, %v", in, enc, again, err)
			}
			// YAML is written with its members in the order of their names.
			a, errA := manifestfile.ToYAML(again[0].Object)
			if errA != nil || string(a) != string(enc) || !proto.Equal(again[0].Object.GetMetadata(), e.Object.GetMetadata()) {
				t.Fatalf("%q became\n%s\nand then\n%s", in, enc, a)
			}
		}
	})
}
