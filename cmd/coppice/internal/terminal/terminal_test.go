package terminal

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/testkit/must"
)

func TestAge(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second:                  "0s",
		0:                             "0s",
		119 * time.Second:             "119s",
		120 * time.Second:             "2m",
		125 * time.Second:             "2m5s",
		59 * time.Minute:              "59m",
		179 * time.Minute:             "179m",
		3 * time.Hour:                 "3h",
		3*time.Hour + 5*time.Minute:   "3h5m",
		9*time.Hour + 5*time.Minute:   "9h",
		47 * time.Hour:                "47h",
		48 * time.Hour:                "2d",
		50 * time.Hour:                "2d2h",
		30 * 24 * time.Hour:           "30d",
		2*365*24*time.Hour + 36*24e11: "2y1d",
		9 * 365 * 24 * time.Hour:      "9y",
	} {
		if got := Age(d); got != want {
			t.Errorf("age(%v) is %s, want %s", d, got, want)
		}
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 10, 31, 7, 0, time.Local)
	if got := Clock(now.Add(-time.Hour), now); got != "09:31:07" {
		t.Errorf("an hour ago is %s", got)
	}
	if got := Clock(now.Add(-24*time.Hour), now); got != "2026-03-01 10:31:07" {
		t.Errorf("yesterday is %s", got)
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		n          int
		noun, want string
	}{
		{0, "object", "0 objects"}, {1, "object", "1 object"}, {2, "policy", "2 policies"}, {3, "key", "3 keys"}, {2, "match", "2 matches"},
	} {
		if got := Count(tc.n, tc.noun); got != tc.want {
			t.Errorf("count(%d, %q) is %s", tc.n, tc.noun, got)
		}
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	tb := Table{W: &b}
	red := Ink{on: true}.Red
	for _, row := range [][]Cell{
		{{Text: "NAME"}, {Text: "STATUS"}, {Text: "AGE"}},
		{{Text: "ägypten"}, {Text: "Gone", Colour: red}, {Text: "1s"}},
		{{Text: "a\x1b[31m\nb"}, {Text: ""}, {Text: "2s"}},
	} {
		must.Succeed(t, tb.Row(row...))
	}
	must.Succeed(t, tb.Flush())
	const want = "NAME       STATUS   AGE\nägypten    \x1b[31mGone\x1b[0m     1s\na?[31m?b            2s\n"
	if b.String() != want {
		t.Errorf("written\n%q\nwant\n%q", b.String(), want)
	}
}

// A long table is written in parts, and its columns never become narrower.
func TestTableIsWrittenInParts(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	tb := Table{W: &b}
	must.Succeed(t, tb.Text("a long name", "x"))
	for range maxBuffered {
		must.Succeed(t, tb.Text("b", "x"))
	}
	if n := strings.Count(b.String(), "\n"); n != maxBuffered {
		t.Errorf("%d rows were written before the end, want %d", n, maxBuffered)
	}
	must.Succeed(t, tb.Flush())
	if !strings.HasSuffix(b.String(), "b             x\n") {
		t.Errorf("the last row is %q", b.String()[b.Len()-20:])
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		line    string
		columns int
		want    string
	}{{"removed 1/4; waiting", 14, "removed 1/4;…"}, {"removed", 80, "removed"}, {"removed 1/4; waiting", 0, "removed 1/4; waiting"}} {
		if got := Fit(tc.line, tc.columns); got != tc.want {
			t.Errorf("fit(%q, %d) is %q", tc.line, tc.columns, got)
		}
	}
}

// The colours, and what turns them off, cannot be tested alongside others: they
// are in the environment.
func TestInk(t *testing.T) {
	for _, tc := range []struct {
		terminal      bool
		noColor, term string
		want          bool
	}{
		{true, "", "xterm", true}, {true, "1", "xterm", false}, {true, "", "dumb", false}, {false, "", "xterm", false},
	} {
		t.Setenv("NO_COLOR", tc.noColor)
		t.Setenv("TERM", tc.term)
		if got := NewInk(tc.terminal).on; got != tc.want {
			t.Errorf("terminal %t, NO_COLOR=%q, TERM=%s: colours %t", tc.terminal, tc.noColor, tc.term, got)
		}
	}
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"größe 1\u200d2":                "größe 1\u200d2",
		"\x1b[31m\r\n\t\x00\x7f":        "?[31m?????",
		"\u009b31m\xff":                 "?31m?",
		"\u202egpj.\u2066x\u2069\u200f": "?gpj.?x??",
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q is printed as %q, want %q", text, got, want)
		}
	}
}
