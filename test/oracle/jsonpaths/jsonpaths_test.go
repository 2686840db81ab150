// Package jsonpaths_test compares what Coppice writes for JSONPath templates and columns with
// kubectl's printers. It can be built without an API server.
package jsonpaths_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/kubectl/pkg/cmd/get"

	"github.com/coppice-gc/coppice/internal/jsonpath"
	"github.com/coppice-gc/coppice/internal/manifest"
)

// theirs is what kubectl writes for an object. kubectl ends with a panic for some ranges that
// have null.
func theirs(t *testing.T, command, text, object string) (out string, err error) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON([]byte(object)); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if command == "column" {
		p, err := get.NewCustomColumnsPrinterFromSpec(":"+text, nil, true)
		if err == nil {
			err = p.PrintObj(o, &b)
		}
		return strings.TrimSuffix(b.String(), "\n"), err
	}
	p, err := printers.NewJSONPathPrinter(text)
	if err != nil {
		return "", err
	}
	p.AllowMissingKeys(true)
	p.EnableJSONOutput(command == "json")
	err = p.PrintObj(o, &b)
	return b.String(), err
}

// ours is what Coppice writes for an object.
func ours(t *testing.T, command, text, object string) (string, error) {
	t.Helper()
	o, err := manifest.FromJSON([]byte(object))
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonpath.Document(o)
	if err != nil {
		t.Fatal(err)
	}
	if command == "column" {
		columns, err := jsonpath.ParseColumns(":" + text)
		if err != nil {
			return "", err
		}
		return columns[0].Value(v)
	}
	template, err := jsonpath.Parse(text, command == "json")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = template.Execute(&b, v)
	return b.String(), err
}

// The recordings that the tests of internal/jsonpath replay are what kubectl writes.
func TestRecordings(t *testing.T) {
	object := ""
	datadriven.RunTest(t, "../../../internal/jsonpath/testdata/templates.txt", func(t *testing.T, d *datadriven.TestData) string {
		t.Helper()
		if d.Cmd == "document" {
			object = d.Input
			return ""
		}
		var b strings.Builder
		for line := range strings.Lines(d.Input) {
			line = strings.TrimSuffix(line, "\n")
			out, err := theirs(t, d.Cmd, line, object)
			if err != nil {
				out = "refused"
			}
			fmt.Fprintf(&b, "%s: %q\n", line, out)
		}
		return b.String()
	})
}

// drawing draws objects and templates whose names are a to d.
type drawing struct{ *rand.Rand }

func (r drawing) of(texts ...string) string { return texts[r.IntN(len(texts))] }
func (r drawing) name() string              { return r.of("a", "b", "c", "d") }

func (r drawing) value(depth int) any {
	switch n := r.IntN(9); {
	case n < 3 && depth > 0:
		o := map[string]any{}
		for range r.IntN(4) {
			o[r.name()] = r.value(depth - 1)
		}
		return o
	case n < 6 && depth > 0:
		list := make([]any, r.IntN(4))
		for i := range list {
			list[i] = r.value(depth - 1)
		}
		return list
	case n == 6:
		return json.Number(r.of("0", "1", "-2", "3.5", "1.0", "1e6", "9007199254740993", "1e-9"))
	case n == 7:
		return r.of("a", "b", "1", "<x>", "")
	}
	return []any{nil, true, false}[r.IntN(3)]
}

func (r drawing) path(depth int) string {
	var b strings.Builder
	for range r.IntN(depth) {
		switch r.IntN(8) {
		case 0, 1, 2:
			b.WriteString("." + r.name())
		case 3:
			b.WriteString(r.of("[0]", "[1]", "[-1]", "[9]", "[0:2]", "[1:]", "[:-1]", "[::2]", "[0,1]", "['a']", "['a','b']", "['a.b']"))
		case 4, 5:
			b.WriteString(r.of("[*]", ".*"))
		case 6:
			b.WriteString(".." + r.of("a", "b", "*", "[0]"))
		case 7:
			b.WriteString("[?(@" + r.path(2))
			if r.IntN(4) > 0 {
				b.WriteString(r.of("==", "!=", "<", "<=", ">", ">=") + r.of("1", "3.5", `"a"`, "'b'", "true", "@.a"))
			}
			b.WriteString(")]")
		}
	}
	return b.String()
}

func (r drawing) template() string {
	switch r.IntN(4) {
	case 0:
		return "{range .spec" + r.path(3) + "}{@" + r.path(3) + "};{end}{.spec" + r.path(3) + "}"
	case 1:
		return "text {.spec" + r.path(5) + `}{"\n"}`
	}
	return "{.spec" + r.path(5) + "}"
}

// sorted orders the bytes of a text in which members of an object may be in any order.
func sorted(text string) string {
	b := []byte(text)
	slices.Sort(b)
	return string(b)
}

// orders is the number of times that a template is tried until both have met the members of
// objects in the same order: after an empty list, [*] ends.
const orders = 100

// Coppice writes for drawn templates, and for drawn paths of columns, what kubectl writes.
func TestDrawn(t *testing.T) {
	r := drawing{rand.New(rand.NewPCG(1, 2))}
	written, refused := 0, 0
	for range 5_000 {
		spec, err := json.Marshal(map[string]any{"a": r.value(4), "b": r.value(4), "c": r.value(4)})
		if err != nil {
			t.Fatal(err)
		}
		object := `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"spec":` + string(spec) + `}`
		command, text := r.of("template", "json"), r.template()
		if r.IntN(4) == 0 { // a comma would end the column
			command, text = "column", strings.ReplaceAll(".spec"+r.path(5), ",", ":")
		}
		want, errTheirs := theirs(t, command, text, object)
		var got string
		var errOurs error
		agree := false
		for i := 0; i < orders && !agree; i++ {
			got, errOurs = ours(t, command, text, object)
			agree = (errOurs == nil) == (errTheirs == nil) && (errOurs != nil || sorted(got) == sorted(want))
		}
		switch {
		case !agree:
			t.Errorf("%s %s of %s: %q, %v, in kubectl %q, %v", command, text, spec, got, errOurs, want, errTheirs)
		case errOurs != nil:
			refused++
		case strings.Trim(got, " []\n;tex") != "":
			written++
		}
	}
	if written < 1_000 || refused < 1_000 {
		t.Errorf("the drawn templates say little: %d wrote values, %d were refused", written, refused)
	}
}
