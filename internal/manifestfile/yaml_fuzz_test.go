package manifestfile_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/manifestfile"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// roundTrip writes an object that has a text as value, as the name of a member, and
// in lists, as YAML, alone and as an item of a list, and reads it again.
func roundTrip(t *testing.T, text string) {
	t.Helper()
	quoted, err := json.Marshal(text)
	must.Succeed(t, err)
	spec := fmt.Sprintf(`{"a":{"deep":[%[1]s,{"x":%[1]s},[%[1]s]]},"v":%[1]s,%[1]s:%[1]s}`, quoted)
	if text == "a" || text == "v" {
		return // the two members have the same name
	}
	o := &coppicev1.Object{ApiVersion: "v1", Kind: "ConfigMap", Metadata: &coppicev1.ObjectMeta{
		Name: "a", Annotations: map[string]string{"a": text},
	}, Spec: []byte(spec)}
	want, err := manifest.Generic(o)
	must.Succeed(t, err)
	compare := func(how, text string, data []byte) {
		t.Helper()
		entries, err := manifestfile.Read("x.yaml", data)
		if err != nil || len(entries) != 1 || entries[0].Err != nil {
			t.Fatalf("%s: %q was written as\n%s\nwhich is read as %v, %v", how, text, data, entries, err)
		}
		got, err := manifest.Generic(entries[0].Object)
		must.Succeed(t, err)
		if a, b := fmt.Sprintf("%#v", got), fmt.Sprintf("%#v", want); a != b {
			t.Fatalf("%s: %q was written as\n%s\nand became\n%s\nwant\n%s", how, text, data, a, b)
		}
	}
	data, err := manifestfile.ToYAML(o)
	must.Succeed(t, err)
	compare("an object", text, data)
	item, err := manifestfile.ToYAMLItem(o)
	must.Succeed(t, err)
	compare("an item", text, append([]byte("apiVersion: v1\nkind: List\nitems:\n"), item...))
}

// Every text can be read back after it was written as YAML. The texts are drawn from
// characters and words that have a meaning in YAML.
func TestYAMLRoundTrip(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"\tx\ny", "\n\tx", " x\ny", "\n", "\n\n", "x\n", "x\n\n", "\nx", "x \ny", "x\t\ny", "a\r\nb", "\r", "\u0085", "\u2028\n", "\ufeff", "\ufeffx\ny", "\x00", "\x7f", "\U0001f600\nx", "\ufffe", "\uffff",
		"- a\n- b", "# x\ny", "---\nx", "...\n", "? a", ": a", "a: b\nc", "|", ">", "%x", "@", "`", "null", "~", "yes", "0x1f", "1e3", "1_000", "0o7", "1:20", "2001-01-01", ".inf", "=", "<<", "!x", "&a", "*a",
		strings.Repeat("x ", 100), strings.Repeat("x", 300), strings.Repeat("x ", 100) + "\n" + strings.Repeat(" y", 100), "  \n", "\t", " ", "", "'", "\"", "a\n  b\n c", "\n  b\n c",
	} {
		roundTrip(t, text)
	}
	parts := []string{
		"\t", "\n", "\r", " ", "  ", "x", "y", "-", "- ", "#", " #", ":", ": ", "|", ">", "'", "\"", "\\", "%", "---", "...", "\u0085", "\u2028", "\u2029", "\ufeff", "\x00", "\x1b", "é", "\U0001f600",
		"yes", "null", "1", "{", "[", ",", "&a", "*a", "!", "?", "=", "~", "<<", "\u00a0", "\ud7ff", "\ufffd", "\ufffe",
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		var b strings.Builder
		for range r.IntN(8) {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		roundTrip(t, b.String())
	}
}

// FuzzYAMLRoundTrip is TestYAMLRoundTrip for any text.
func FuzzYAMLRoundTrip(f *testing.F) {
	f.Add("\tx\ny")
	f.Fuzz(func(t *testing.T, text string) {
		if utf8.ValidString(text) {
			roundTrip(t, text)
		}
	})
}
