package lifecycle

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Retention bounds the size, the age, or both, of a log or an archive. A zero field is no
// bound; the zero Retention keeps everything.
type Retention struct {
	Bytes int64
	Age   time.Duration
}

// DefaultLogRetention is the retention of the log in a realm that does not set another one.
// It takes effect only where the log is archived.
var DefaultLogRetention = Retention{Bytes: 1 << 30}

// keepAll is the text of the zero Retention.
const keepAll = "all"

// Limits of the bounds of a retention. An age below the least one would conflict with the
// time for which the ids of commands are kept.
const (
	leastRetained = 1 << 20
	mostRetained  = 1 << 50
	leastAge      = 10 * time.Minute
	day           = 24 * time.Hour
)

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"PiB", 1 << 50}, {"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// ParseRetention reads the text of a Retention: a size such as 512MiB or 10GiB, an age such
// as 36h or 30d, both with a comma between them, or "all".
func ParseRetention(text string) (r Retention, err error) {
	if text == keepAll {
		return r, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if bytes, ok := parseSize(part); ok {
			if r.Bytes != 0 {
				return Retention{}, errRetention
			}
			r.Bytes = bytes
		} else if age, ok := parseAge(part); ok {
			if r.Age != 0 {
				return Retention{}, errRetention
			}
			r.Age = age
		} else {
			return Retention{}, errRetention
		}
	}
	return r, nil
}

var errRetention = errors.New("must be a size from 1MiB to 1PiB, such as 512MiB or 10GiB, an age from 10m to 3650d, such as 36h or 30d, both with a comma between them, or all to keep everything")

// parseSize reads a size in bytes, and reports whether it is one that a Retention may have.
func parseSize(text string) (bytes int64, ok bool) {
	for _, u := range sizeUnits {
		if number, is := strings.CutSuffix(text, u.name); is {
			n, err := strconv.ParseUint(number, 10, 63)
			return int64(n) * u.bytes, err == nil && n <= mostRetained/uint64(u.bytes) && int64(n)*u.bytes >= leastRetained
		}
	}
	return 0, false
}

// parseAge reads an age, and reports whether it is one that a Retention may have.
func parseAge(text string) (age time.Duration, ok bool) {
	if number, is := strings.CutSuffix(text, "d"); is {
		n, err := strconv.ParseUint(number, 10, 32)
		return time.Duration(n) * day, err == nil && n > 0 && n <= uint64(maxDuration/day)
	}
	age, err := time.ParseDuration(text)
	return age, err == nil && age >= leastAge && age <= maxDuration
}

// String returns the text that ParseRetention reads.
func (r Retention) String() string {
	var parts []string
	if r.Bytes > 0 {
		parts = append(parts, sizeText(r.Bytes))
	}
	switch {
	case r.Age == 0:
	case r.Age%day == 0:
		parts = append(parts, fmt.Sprintf("%dd", r.Age/day))
	default:
		parts = append(parts, r.Age.String())
	}
	if parts == nil {
		return keepAll
	}
	return strings.Join(parts, ",")
}

// sizeText returns a size in the largest unit of which it is a multiple.
func sizeText(bytes int64) string {
	for _, u := range sizeUnits {
		if bytes%u.bytes == 0 {
			return fmt.Sprintf("%d%s", bytes/u.bytes, u.name)
		}
	}
	return fmt.Sprintf("%d bytes", bytes) // of no text
}

// All reports whether everything is kept.
func (r Retention) All() bool { return r == Retention{} }

// MostBytes returns the bound of the size, math.MaxInt64 for none.
func (r Retention) MostBytes() int64 {
	if r.Bytes == 0 {
		return math.MaxInt64
	}
	return r.Bytes
}

// MostAge returns the bound of the age, math.MaxInt64 for none.
func (r Retention) MostAge() time.Duration {
	if r.Age == 0 {
		return math.MaxInt64
	}
	return r.Age
}

// retention reads a retention that is set into r, and refuses one that is none.
func retention(field, set string, r *Retention) []Cause {
	if set == "" {
		return nil
	}
	read, err := ParseRetention(set)
	if err != nil {
		return []Cause{invalidValue(field, set, err.Error())}
	}
	*r = read
	return nil
}
