package terminal

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestBar(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	now := time.Unix(100, 0)
	b := Bar{W: &out, Label: "copying", Total: 4 << 20, Now: func() time.Time { return now }}
	step := func(after time.Duration, n int64, want string) {
		t.Helper()
		out.Reset()
		now = now.Add(after)
		b.Add(n)
		if got := out.String(); got != want {
			t.Errorf("written %q, want %q", got, want)
		}
	}
	step(0, 0, "\rcopying ["+strings.Repeat(" ", 30)+"]   0% of 4.0 MiB\x1b[K")
	step(50*time.Millisecond, 1<<20, "") // it is not rewritten for every read
	step(1950*time.Millisecond, 1<<20, "\rcopying ["+strings.Repeat("=", 15)+strings.Repeat(" ", 15)+"]  50% of 4.0 MiB, 1.0 MiB/s, 2s left\x1b[K")
	step(2*time.Second, 2<<20, "\rcopying ["+strings.Repeat("=", 30)+"] 100% of 4.0 MiB, 1.0 MiB/s, 0s left\x1b[K")
	out.Reset()
	b.Clear()
	b.Clear()
	if got := out.String(); got != "\r\x1b[K" {
		t.Errorf("cleared by %q", got)
	}
	(&Bar{Total: 5}).Add(1) // not a terminal
}

// A bar that is for long work alone is not shown before.
func TestBarAfter(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	now := time.Unix(100, 0)
	b := Bar{W: &out, Label: "searching", Noun: "commit", Total: 10, Now: func() time.Time { return now }, After: time.Second}
	for range 2 {
		b.Add(1)
		now = now.Add(999 * time.Millisecond)
	}
	b.Clear()
	if out.Len() > 0 {
		t.Errorf("written %q", out.String())
	}
	b.Add(1)
	if got := out.String(); !strings.HasPrefix(got, "\rsearching [=========") {
		t.Errorf("written %q", got)
	}
}

func TestBytes(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536 << 10: "1.5 MiB", 5 << 40: "5.0 TiB", 3000 << 40: "3000.0 TiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d bytes are %s, want %s", n, got, want)
		}
	}
}
