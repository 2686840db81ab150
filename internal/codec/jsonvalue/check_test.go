package jsonvalue_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/coppice-gc/coppice/internal/codec/jsonvalue"
	"github.com/coppice-gc/coppice/internal/testkit"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	nested := func(open, end string, n int) string { return strings.Repeat(open, n) + "1" + strings.Repeat(end, n) }
	for text, want := range map[string]error{
		`{}`: nil, ` [ 1 , -0.5e+3, "x\u00e9\n", null, true, false ] `: nil, `"é"`: nil, `0`: nil, `{"a":{"b":[{}]}}`: nil,
		``: jsonvalue.ErrSyntax, `{`: jsonvalue.ErrSyntax, `{"a"}`: jsonvalue.ErrSyntax, `[1,]`: jsonvalue.ErrSyntax, `{"a":1,}`: jsonvalue.ErrSyntax,
		`01`: jsonvalue.ErrSyntax, `1.`: jsonvalue.ErrSyntax, `-`: jsonvalue.ErrSyntax, `1e`: jsonvalue.ErrSyntax, `nul`: jsonvalue.ErrSyntax,
		`"\x"`: jsonvalue.ErrSyntax, `"\u12"`: jsonvalue.ErrSyntax, "\"\n\"": jsonvalue.ErrSyntax, `1 2`: jsonvalue.ErrSyntax, `{a:1}`: jsonvalue.ErrSyntax,
		"\"\xff\"": jsonvalue.ErrNotUTF8, "{\"\xc3\":1}": jsonvalue.ErrNotUTF8, "\"\xed\xa0\x80\"": jsonvalue.ErrNotUTF8,
		nested("[", "]", jsonvalue.MaxDepth): nil, nested("[", "]", jsonvalue.MaxDepth+1): jsonvalue.ErrDepth,
		nested(`{"a":`, "}", jsonvalue.MaxDepth): nil, nested(`{"a":`, "}", 10000): jsonvalue.ErrDepth,
		// Nested deeply is something else than long.
		"[" + strings.Repeat("[],", 5000) + "1]": nil,
	} {
		if err := jsonvalue.Check([]byte(text)); !errors.Is(err, want) {
			t.Errorf("Check(%.40q): %v, want %v", text, err, want)
		}
	}
}

func TestNormalize(t *testing.T) {
	t.Parallel()
	many := `{"a0":0`
	for i := 1; i < 100; i++ {
		many += fmt.Sprintf(`,"a%d":%d`, i, i)
	}
	for text, want := range map[string]struct {
		normal string
		paths  []string
	}{
		`{"a":1,"b":2}`:                             {`{"a":1,"b":2}`, nil},
		`{"a":1,"a":2}`:                             {`{"a":2}`, []string{"a"}},
		`{"a":1,"b":3,"a":2}`:                       {`{"b":3,"a":2}`, []string{"a"}},
		`{"a":1, "a" : 2 ,"a":3}`:                   {`{"a":3}`, []string{"a", "a"}},
		`{"a":1,"\u0061":2}`:                        {`{"\u0061":2}`, []string{"a"}},
		`{"x":[1,{"a":{"k":1,"k":2},"b":1,"b":2}]}`: {`{"x":[1,{"a":{"k":2},"b":2}]}`, []string{"x[1].a.k", "x[1].b"}},
		`{"a":{"k":1,"k":2},"a":{"k":3}}`:           {`{"a":{"k":3}}`, []string{"a.k", "a"}},
		`[{"a":1},{"a":1}]`:                         {`[{"a":1},{"a":1}]`, nil},
		many + `,"a0":"x","a50":"y","a0":"z"}`: {
			strings.Replace(strings.Replace(many, `"a0":0,`, "", 1), `"a50":50,`, "", 1) + `,"a50":"y","a0":"z"}`, []string{"a0", "a50", "a0"},
		},
	} {
		normal, paths, err := jsonvalue.Normalize([]byte(text))
		if err != nil || string(normal) != want.normal || !slices.Equal(paths, want.paths) {
			t.Errorf("Normalize(%s):\n got %s, %q, %v\nwant %s, %q", text, normal, paths, err, want.normal, want.paths)
		}
	}
}

func TestNormalizeIsBounded(t *testing.T) {
	t.Parallel()
	raw := []byte(`{"` + strings.Repeat("k", 1000) + `":{` + strings.Repeat(`"a":1,`, 100000) + `"a":2}}`)
	normal, paths, err := jsonvalue.Normalize(raw)
	if err != nil || !bytes.HasSuffix(normal, []byte(`:{"a":2}}`)) || len(paths) > 10 || len(paths[0]) > 600 {
		t.Errorf("%d bytes, %d paths: %v", len(normal), len(paths), err)
	}
}

func TestCheckAllocatesNothing(t *testing.T) {
	raw := []byte(`{"replicas":3,"template":{"spec":{"containers":[{"name":"a","image":"b","ports":[{"port":80}]}]}}}`)
	allocated := 0
	for range 100 {
		if testing.AllocsPerRun(1, func() { _ = jsonvalue.Check(raw) }) != 0 {
			allocated++
		}
	}
	// After a garbage collection the pool is empty. With -race it drops a quarter of what it is given.
	if allocated > 60 || allocated > 3 && !testkit.Raced {
		t.Errorf("%d of 100 calls allocated", allocated)
	}
}

// TestMergePatch has the examples of RFC 7386 and more.
func TestMergePatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ doc, patch, want string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{`{}`, `{"a":[null,{"b":null}]}`, `{"a":[null,{"b":null}]}`},
		{``, `{"a":{"b":null,"c":"<"}}`, `{"a":{"c":"<"}}`},
		{`{"n":12345678901234567890}`, `{"a":1.0}`, `{"a":1.0,"n":12345678901234567890}`},
	} {
		got, err := jsonvalue.MergePatch([]byte(c.doc), []byte(c.patch))
		if err != nil || string(got) != c.want {
			t.Errorf("%s patched with %s: %s, %v, want %s", c.doc, c.patch, got, err, c.want)
		}
	}
}

// What Check accepts, encoding/json reads, and the same as before it was normalized.
func FuzzNormalize(f *testing.F) {
	for _, seed := range []string{`{"a":1,"a":2}`, `[{"a":{"b":1,"b":[]}},-1.5e3,"\ud800"]`, "\"\xff\"", `{"":0,"":{}}`, ` {} `} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		normal, paths, err := jsonvalue.Normalize(raw)
		if (err == nil) != (jsonvalue.Check(raw) == nil) {
			t.Fatalf("%q: Normalize says %v, Check does not", raw, err)
		}
		if err != nil {
			if json.Valid(raw) && utf8.Valid(raw) && !errors.Is(err, jsonvalue.ErrDepth) {
				t.Fatalf("%q is JSON: %v", raw, err)
			}
			return
		}
		var was, is any
		if err := json.Unmarshal(raw, &was); err != nil {
			if strings.Contains(err.Error(), "cannot unmarshal number") {
				return // a number that float64 does not have
			}
			t.Fatalf("%q: %v", raw, err)
		}
		if err := json.Unmarshal(normal, &is); err != nil {
			t.Fatalf("%q became %q: %v", raw, normal, err)
		}
		a, _ := json.Marshal(was)
		b, _ := json.Marshal(is)
		if !bytes.Equal(a, b) {
			t.Fatalf("%q became %q", raw, normal)
		}
		again, more, err := jsonvalue.Normalize(normal)
		if err != nil || len(more) > 0 || !bytes.Equal(again, normal) || len(paths) == 0 && !bytes.Equal(raw, normal) {
			t.Fatalf("%q is not normal: %q, %q, %v", normal, again, more, err)
		}
	})
}

// FuzzMergePatch patches a document with itself and with nothing.
func FuzzMergePatch(f *testing.F) {
	f.Add([]byte(`{"a":[null,{"b":null}],"c":{"d":null}}`), []byte(`{"c":null}`))
	f.Fuzz(func(t *testing.T, doc, patch []byte) {
		doc, _, errDoc := jsonvalue.Normalize(doc)
		patch, _, errPatch := jsonvalue.Normalize(patch)
		if errDoc != nil || errPatch != nil {
			return
		}
		once, err := jsonvalue.MergePatch(doc, patch)
		if err != nil {
			t.Fatalf("%q patched with %q: %v", doc, patch, err)
		}
		if err := jsonvalue.Check(once); err != nil {
			t.Fatalf("%q patched with %q is %q: %v", doc, patch, once, err)
		}
		twice, err := jsonvalue.MergePatch(once, patch)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%q patched twice with %q: %q, then %q: %v", doc, patch, once, twice, err)
		}
	})
}

func BenchmarkNormalize(b *testing.B) {
	small := []byte(`{"replicas":3,"template":{"spec":{"containers":[{"name":"a","image":"b","ports":[{"port":80}]}]}}}`)
	large := []byte("[" + strings.Repeat(string(small)+",", 1000) + "1]")
	var wide bytes.Buffer
	for i := range 10000 {
		fmt.Fprintf(&wide, `,"member%d":%d`, i, i)
	}
	for name, raw := range map[string][]byte{"small": small, "large": large, "wide": append(append([]byte("{"), wide.Bytes()[1:]...), '}')} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				_, _, _ = jsonvalue.Normalize(raw)
			}
		})
	}
}

// Check agrees with encoding/json on all short texts.
func TestCheckIsJSON(t *testing.T) {
	t.Parallel()
	parts := []string{"{", "}", "[", "]", ",", `"a":`, `"`, `\`, `\u00e`, "0", "1", "-", ".", "e+", "true", "nul", " ", "\n", "\x00", "\xff"}
	last := []string{""}
	for range 4 {
		var longer []string
		for _, s := range last {
			for _, p := range parts {
				text := []byte(s + p)
				if err, valid := jsonvalue.Check(text), json.Valid(text) && utf8.Valid(text); (err == nil) != valid {
					t.Errorf("%q: %v, want JSON %t", text, err, valid)
				}
				longer = append(longer, s+p)
			}
		}
		last = longer
	}
}
