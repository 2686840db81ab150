package selector_test

import (
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/selector"
)

func TestMatches(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"app": "web", "tier": "front", "empty": "", "example.com/x": "y"}
	for text, want := range map[string]bool{
		"":                         true,
		"app=web":                  true,
		"app==web":                 true,
		"app = web , tier=front":   true,
		"app=db":                   false,
		"app=web,tier=db":          false,
		"app!=db":                  true,
		"app!=web":                 false,
		"missing!=x":               true,
		"app":                      true,
		"missing":                  false,
		"!missing":                 true,
		"!app":                     false,
		"app in (db, web)":         true,
		"app in (db)":              false,
		"missing in (x)":           false,
		"app notin (db)":           true,
		"app notin (db,web)":       false,
		"missing notin (x)":        true,
		"empty=":                   true,
		"example.com/x in (y),app": true,
	} {
		s, err := selector.Parse(text)
		if err != nil {
			t.Errorf("Parse(%q): %v", text, err)
			continue
		}
		if got := s.Matches(labels); got != want {
			t.Errorf("%q matches: %t, want %t", text, got, want)
		}
	}
}

func TestComparisons(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"n>4": true, "n > 5": false, "n<6": true, "n<5": false, "word>1": false, "missing<9": false, "missing>1": false,
		"n>4,n<6": true, "n>9223372036854775807": false, "in in (in)": true, "notin": true, "!in": false,
		"app in ()": false, "empty in ()": true, "empty in (,a)": true, "empty in (a,,b)": true, "app in (db,web,)": true, "app=\tweb\n": true,
	} {
		s, err := selector.Parse(text)
		if err != nil {
			t.Errorf("Parse(%q): %v", text, err)
			continue
		}
		if got := s.Matches(map[string]string{"n": "5", "word": "x", "app": "web", "empty": "", "in": "in", "notin": "1"}); got != want {
			t.Errorf("%q matches: %t, want %t", text, got, want)
		}
	}
}

// TestParseRefuses: what Kubernetes refuses, and blanks, which it accepts. (It takes a NUL
// for the end; here that is no key.) Errors quote what is wrong.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		" ": "only blanks", "\t": "only blanks", " \r\n ": "only blanks", strings.Repeat(" ", 1000): "only blanks",
		"=x": `found "="`, "!": "found the end", "!!a": `found "!"`, "app=web,": "found the end", ",app": `found ","`, "app,,b": `found ","`,
		"app in": "expected '('", "app in (a": "found the end", "app in (a b)": `found "b"`, "app in (a/b)": `"a/b"`, "app in ((a))": `found "("`,
		"app within (a)": `found "within"`, "a b": `found "b"`, "a=b=c": `found "="`, "in (a)": `found "("`, "!a=b": `found "="`, "!a in (b)": `found "in"`,
		"-x==web": `"-x"`, "a\nb=c": `found "b"`, "x/=y": "non-empty", "/x=y": "prefix", "Example.com/x": "prefix", "a/b/c": `"a/b/c"`, "é": `"é"`,
		"a=-b": `"-b"`, "a=b/c": `"b/c"`, "a=\"b\"": `"\"b\""`, "a>x": `"x"`, "a>": `""`, "a>1.5": `"1.5"`, "a>-1": `"-1"`, "a<9223372036854775808": "64 bits", "a>(1)": `found "("`,
		"a\x00": `"a\x00"`, "a=b\x00": `"b\x00"`, strings.Repeat("k", 64): "63", "a=" + strings.Repeat("v", 64): "63",
	} {
		switch s, err := selector.Parse(text); {
		case err == nil:
			t.Errorf("Parse(%q) = %v, want an error", text, s)
		case !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "label selector \""):
			t.Errorf("Parse(%q): %v, want it to say %s", text, err, says)
		}
	}
	for _, begin := range []string{"", "a=", "a>", "a in (", "a b"} {
		if _, err := selector.Parse(begin + strings.Repeat("-", 1<<20)); err == nil || len(err.Error()) > 2000 {
			t.Errorf("%s: the error has %d bytes", begin, len(err.Error()))
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("app=web,tier!=db,env in (prod,test),!legacy")
	f.Add("a>1,b<2,c notin (),in in (in,,)")
	f.Fuzz(func(_ *testing.T, text string) {
		if s, err := selector.Parse(text); err == nil {
			s.Matches(map[string]string{"app": "web"})
		}
	})
}
