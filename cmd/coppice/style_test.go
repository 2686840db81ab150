package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
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
		if got := age(d); got != want {
			t.Errorf("age(%v) is %s, want %s", d, got, want)
		}
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 10, 31, 7, 0, time.Local)
	if got := clock(now.Add(-time.Hour), now); got != "09:31:07" {
		t.Errorf("an hour ago is %s", got)
	}
	if got := clock(now.Add(-24*time.Hour), now); got != "2026-03-01 10:31:07" {
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
		if got := count(tc.n, tc.noun); got != tc.want {
			t.Errorf("count(%d, %q) is %s", tc.n, tc.noun, got)
		}
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	tb := table{w: &b}
	red := ink{on: true}.red
	for _, row := range [][]cell{
		{{text: "NAME"}, {text: "STATUS"}, {text: "AGE"}},
		{{text: "ägypten"}, {text: "Gone", colour: red}, {text: "1s"}},
		{{text: "a\x1b[31m\nb"}, {text: ""}, {text: "2s"}},
	} {
		if err := tb.row(row...); err != nil {
			t.Fatal(err)
		}
	}
	if err := tb.flush(); err != nil {
		t.Fatal(err)
	}
	const want = "NAME       STATUS   AGE\nägypten    \x1b[31mGone\x1b[0m     1s\na?[31m?b            2s\n"
	if b.String() != want {
		t.Errorf("written\n%q\nwant\n%q", b.String(), want)
	}
}

// A table that is long is written while it is read, and columns stay where they are.
func TestTableIsWrittenInParts(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	tb := table{w: &b}
	if err := tb.text("a long name", "x"); err != nil {
		t.Fatal(err)
	}
	for range maxHeld {
		if err := tb.text("b", "x"); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(b.String(), "\n"); n != maxHeld {
		t.Errorf("%d rows were written before the end, want %d", n, maxHeld)
	}
	if err := tb.flush(); err != nil {
		t.Fatal(err)
	}
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
		if got := fit(tc.line, tc.columns); got != tc.want {
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
		a := &app{terminal: tc.terminal}
		if got := a.ink().on; got != tc.want {
			t.Errorf("terminal %t, NO_COLOR=%q, TERM=%s: colours %t", tc.terminal, tc.noColor, tc.term, got)
		}
	}
}

// On a terminal one line is rewritten; elsewhere a line is written for what
// lasted.
func TestRemovalSays(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		terminal bool
		want     string
	}{
		{true, "\rremoved 0/4\x1b[K\rremoved 1/4; waiting: a blocked by b\x1b[K\rremoved 4/4\x1b[K\n"},
		{false, "removed 1/4; waiting: a blocked by b\nremoved 4/4\n"},
	} {
		var b bytes.Buffer
		r := &removal{session: &session{app: &app{stdout: &b, terminal: tc.terminal}}, total: 4, remaining: make([]string, 4)}
		say := func(remaining int, waiting string, done bool) {
			t.Helper()
			r.remaining, r.waiting = r.remaining[:remaining], waiting
			if err := r.say(done); err != nil {
				t.Fatal(err)
			}
		}
		say(4, "", false)
		for range 3 {
			say(3, "waiting: a blocked by b", false)
		}
		say(0, "", true)
		if b.String() != tc.want {
			t.Errorf("terminal %t: said %q, want %q", tc.terminal, b.String(), tc.want)
		}
	}
}
