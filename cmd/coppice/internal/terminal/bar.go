package terminal

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Bar shows on a terminal how many bytes of a total are done, on one line that is
// rewritten: a bar, the rate and the time that is left. It is for one goroutine.
type Bar struct {
	W     io.Writer // nil: nothing is shown
	Label string
	Total int64
	Noun  string // what is counted instead of bytes: commit
	Now   func() time.Time
	After time.Duration // nothing is shown before

	done         int64
	began, drawn time.Time
}

// redraw is the time between two updates of a bar.
const redraw = 100 * time.Millisecond

// barWidth is the width of a bar, without its ends.
const barWidth = 30

// Add adds bytes that are done.
func (b *Bar) Add(n int64) {
	if b.W == nil {
		return
	}
	now := b.Now()
	if b.began.IsZero() {
		b.began = now
	}
	b.done += n
	if now.Sub(b.began) >= b.After && now.Sub(b.drawn) >= redraw {
		b.drawn = now
		_, _ = fmt.Fprintf(b.W, "\r%s\x1b[K", b.line(now))
	}
}

// line returns the line without its control characters.
func (b *Bar) line(now time.Time) string {
	part := float64(min(b.done, b.Total)) / float64(max(b.Total, 1))
	full := int(part * barWidth)
	line := fmt.Sprintf("%s [%s%s] %3.0f%% of %s", b.Label, strings.Repeat("=", full), strings.Repeat(" ", barWidth-full), part*100, b.amount(b.Total))
	if seconds := now.Sub(b.began).Seconds(); seconds >= 1 && b.done > 0 {
		rate := float64(b.done) / seconds
		left := time.Duration(float64(max(b.Total-b.done, 0)) / rate * float64(time.Second))
		line += fmt.Sprintf(", %s/s, %s left", b.amount(int64(rate)), Age(left))
	}
	return line
}

func (b *Bar) amount(n int64) string {
	if b.Noun == "" {
		return Bytes(n)
	}
	return Count(int(n), b.Noun)
}

// Clear removes the line, so that other lines can be written.
func (b *Bar) Clear() {
	if !b.drawn.IsZero() {
		_, _ = io.WriteString(b.W, "\r\x1b[K")
		b.drawn = time.Time{}
	}
}

// Bytes is a number of bytes with a binary unit: "512 B", "1.5 MiB".
func Bytes(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n), -1
	for value >= 1<<10 && unit < len(units)-1 {
		value /= 1 << 10
		unit++
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}

var units = []string{"KiB", "MiB", "GiB", "TiB"}
