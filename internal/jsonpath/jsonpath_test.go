package jsonpath_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/coppice-gc/coppice/internal/jsonpath"
	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

func document(t *testing.T, text string) any {
	t.Helper()
	o, err := manifest.FromJSON([]byte(text))
	must.Succeed(t, err)
	v, err := jsonpath.Document(o)
	must.Succeed(t, err)
	return v
}

// spec is a document with these members of its spec.
func spec(t *testing.T, members string) any {
	t.Helper()
	return document(t, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"spec":{`+members+`}}`)
}

// Templates and columns write what kubectl's printers write; test/oracle/jsonpaths has
// recorded it.
func TestRecorded(t *testing.T) {
	t.Parallel()
	var v any
	datadriven.RunTest(t, "testdata/templates.txt", func(t *testing.T, d *datadriven.TestData) string {
		t.Helper()
		if d.Cmd == "document" {
			v = document(t, d.Input)
			return ""
		}
		var b strings.Builder
		for line := range strings.Lines(d.Input) {
			line = strings.TrimSuffix(line, "\n")
			out, err := written(d.Cmd, line, v)
			if err != nil {
				out = "refused"
			}
			fmt.Fprintf(&b, "%s: %q\n", line, out)
		}
		if got := b.String(); got != d.Expected {
			t.Errorf("\n%s: Coppice writes\n%s\nand kubectl\n%s", d.Pos, got, d.Expected)
		}
		return d.Expected // -rewrite must not change recordings
	})
}

// written is what a template, or a column's path, makes of a document.
func written(command, text string, v any) (string, error) {
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

// A template can be used again, also with a range.
func TestTemplateTwice(t *testing.T) {
	t.Parallel()
	template, err := jsonpath.Parse(`{range .spec.l[*]}{@};{end}`, false)
	must.Succeed(t, err)
	for range 2 {
		var b strings.Builder
		if err := template.Execute(&b, spec(t, `"l":[1,2]`)); err != nil || b.String() != "1;2;" {
			t.Errorf("%q, %v", b.String(), err)
		}
	}
}

// All digits of numbers are written. Like kubectl, numbers that a float64 holds are
// written in its form.
func TestNumbers(t *testing.T) {
	t.Parallel()
	for number, want := range map[string]string{
		"1": "1", "-0": "0", "1.0": "1", "1e3": "1000", "0.10": "0.1", "-2.50e-3": "-0.0025", "1000000.0": "1e+06",
		"9223372036854775807": "9223372036854775807", "9223372036854775808": "9223372036854775808",
		"123456789012345678901234567890": "123456789012345678901234567890", "0.1234567890123456789": "0.1234567890123456789",
	} {
		if got, err := written("template", "{.spec.n}", spec(t, `"n":`+number)); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", number, got, err, want)
		}
	}
}

func TestColumns(t *testing.T) {
	t.Parallel()
	v := spec(t, `"n":3`)
	for _, tc := range []struct {
		parse func(string) ([]jsonpath.Column, error)
		text  string
		want  string
	}{
		{jsonpath.ParseColumns, "KIND:.kind,N:{spec.n}", "KIND=Node N=3 "},
		{jsonpath.ParseColumns, ":.kind,EMPTY:", "=Node EMPTY=<none> "},
		{jsonpath.ReadColumns, "KIND   N\n.kind {.spec.n}\n", "KIND=Node N=3 "},
		{jsonpath.ReadColumns, "KIND\r\n.kind\r\nmore\n", "KIND=Node "},
		{jsonpath.ParseColumns, "", `"" is not HEADER:PATH`},
		{jsonpath.ParseColumns, "NAME", `"NAME" is not HEADER:PATH`},
		{jsonpath.ParseColumns, "NAME:.a[", "custom-columns: column NAME: path .a["},
		{jsonpath.ReadColumns, "", "0 headers"},
		{jsonpath.ReadColumns, "A B\n.a", "2 headers and the second 1 paths"},
	} {
		columns, err := tc.parse(tc.text)
		if err != nil {
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%q: %v, want %q", tc.text, err, tc.want)
			}
			continue
		}
		var b strings.Builder
		for _, c := range columns {
			value, err := c.Value(v)
			if err != nil {
				t.Error(err)
			}
			b.WriteString(c.Header + "=" + value + " ")
		}
		if b.String() != tc.want {
			t.Errorf("%q: %q, want %q", tc.text, b.String(), tc.want)
		}
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	for _, sorted := range []string{
		`null, -1, 2.5, 10, 123456789012345678901234567890`,
		`9007199254740992, 9007199254740993`,
		`"100m", "2", "10", "1Ki", "1500", "1Mi"`,
		`"2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", "2026-11-01T00:00:00Z"`,
		`"a", "b"`,
	} {
		p, err := jsonpath.ParsePath(".spec.l[*]")
		must.Succeed(t, err)
		values, err := p.Select(spec(t, `"l":[`+sorted+`]`))
		must.Succeed(t, err)
		for i, a := range values {
			for j, b := range values {
				if got, err := jsonpath.Compare(a, b); err != nil || (got < 0) != (i < j) || (got > 0) != (i > j) {
					t.Errorf("%v, %v: %d, %v", a, b, got, err)
				}
			}
		}
	}
	for _, pair := range [][2]any{{int64(1), "1"}, {true, false}, {map[string]any{}, map[string]any{}}} {
		if _, err := jsonpath.Compare(pair[0], pair[1]); err == nil {
			t.Errorf("%v and %v have an order", pair[0], pair[1])
		}
	}
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{`{range .spec.a[*]}{.b['c','d']}{end}`, `{.spec.a[?(@.b=="c")]..d[1:2]}`, `{"\n"}{$}`, `{range .spec.a[*]}{@}{end}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, asJSON := range []bool{false, true} {
			if p, err := jsonpath.Parse(text, asJSON); err == nil {
				_ = p.Execute(io.Discard, spec(t, `"a":[null,{"b":"c","d":[1,2]},[3.5],"e"]`))
			}
		}
	})
}
