package terminal

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Table writes rows in columns. It buffers the first rows to find out how wide the
// columns are, at most maxBuffered: a list may be long.
type Table struct {
	W      io.Writer
	rows   [][]Cell
	widths []int
}

// Cell is a text and its colour; a nil Colour leaves it as it is.
type Cell struct {
	Text   string
	Colour func(string) string
}

// maxBuffered is how many rows are buffered.
const maxBuffered = 1000

// Row adds a row.
func (t *Table) Row(cells ...Cell) error {
	t.rows = append(t.rows, cells)
	if len(t.rows) >= maxBuffered {
		return t.Flush()
	}
	return nil
}

// Text writes a row without colours.
func (t *Table) Text(cells ...string) error {
	row := make([]Cell, len(cells))
	for i, c := range cells {
		row[i].Text = c
	}
	return t.Row(row...)
}

// Flush writes the buffered rows. Columns never become narrower.
func (t *Table) Flush() error {
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(t.widths) {
				t.widths = append(t.widths, 0)
			}
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(c.Text))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		for i, c := range row {
			text := Printable(c.Text)
			if c.Colour != nil {
				text = c.Colour(text)
			}
			b.WriteString(text)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(c.Text)+3))
			}
		}
		b.WriteByte('\n')
	}
	t.rows = t.rows[:0]
	_, err := io.WriteString(t.W, b.String())
	return err
}

// Printable returns text with a question mark in place of each control character, of those that change the direction of
// text, and of invalid UTF-8. Clients choose the names of objects, and must not control the terminal of the user that
// lists them.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError || unicode.Is(unicode.Bidi_Control, r) {
			return '?'
		}
		return r
	}, s)
}

// Listed is how many things that block a deletion are listed; the others are counted.
const Listed = 10

// Short joins the first items of a list, and counts the others.
func Short(list []string, most int) string {
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return strings.Join(list[:most], ", ") + fmt.Sprintf(" and %d more", len(list)-most)
}
