package terminal

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// Ink colours text, or leaves it as it is.
type Ink struct{ on bool }

// NewInk returns colour on a terminal, unless the user has said otherwise
// (https://no-color.org), and none anywhere else.
func NewInk(terminal bool) Ink {
	return Ink{on: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func (i Ink) with(code, s string) string {
	if !i.on || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// Red colours what is gone or failed.
func (i Ink) Red(s string) string { return i.with("31", s) }

// Green colours what is as it should be.
func (i Ink) Green(s string) string { return i.with("32", s) }

// Yellow colours what is about to change, and warnings.
func (i Ink) Yellow(s string) string { return i.with("33", s) }

// Dim makes details paler.
func (i Ink) Dim(s string) string { return i.with("2", s) }

// Count is a number with its noun: "1 object", "2 objects".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %s", n, plural(noun))
}

func plural(noun string) string {
	for _, end := range []string{"s", "x", "ch", "sh"} {
		if strings.HasSuffix(noun, end) {
			return noun + "es"
		}
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok && !strings.HasSuffix(stem, "e") {
		return stem + "ies"
	}
	return noun + "s"
}

// Age is a duration as kubectl prints it: exact while it is short, rough when
// it is long.
func Age(d time.Duration) string {
	d = max(d, 0)
	s, m, h := int(d.Seconds()), int(d.Minutes()), int(d.Hours())
	two := func(n int, unit string, rest int, small string) string {
		if rest == 0 {
			return fmt.Sprintf("%d%s", n, unit)
		}
		return fmt.Sprintf("%d%s%d%s", n, unit, rest, small)
	}
	switch {
	case s < 120:
		return fmt.Sprintf("%ds", s)
	case m < 10:
		return two(m, "m", s%60, "s")
	case h < 3:
		return fmt.Sprintf("%dm", m)
	case h < 8:
		return two(h, "h", m%60, "m")
	case h < 48:
		return fmt.Sprintf("%dh", h)
	case h < 8*24:
		return two(h/24, "d", h%24, "h")
	case h < 2*365*24:
		return fmt.Sprintf("%dd", h/24)
	case h < 8*365*24:
		return two(h/24/365, "y", h/24%365, "d")
	}
	return fmt.Sprintf("%dy", h/24/365)
}

// Clock is a time of day for people: local, to the second, and with the date
// where it is not today.
func Clock(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	if t.YearDay() != now.YearDay() || t.Year() != now.Year() {
		return t.Format("2006-01-02 15:04:05")
	}
	return t.Format("15:04:05")
}

// Fit cuts a line so that it can be rewritten.
func Fit(line string, columns int) string {
	runes := []rune(line)
	if columns < 10 || len(runes) < columns {
		return line
	}
	return string(runes[:columns-2]) + "…"
}

// WithNamespace is a key with the namespace behind it, if there is one.
func WithNamespace(key, namespace string) string {
	if namespace == "" {
		return key
	}
	return key + " (" + namespace + ")"
}

// Prefixed is s behind a prefix, nothing if s is nothing.
func Prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}
