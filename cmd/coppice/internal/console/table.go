package console

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Table writes rows in columns. It keeps rows to find out how wide the
// columns are, but at most maxHeld: what is listed may be long.
type Table struct {
	W      io.Writer
	rows   [][]Cell
	widths []int
}

// Cell is a text and how it is coloured, nil for not at all.
type Cell struct {
	Text   string
	Colour func(string) string
}

// maxHeld is how many rows are kept before they are written.
const maxHeld = 1000

// Row adds a row.
func (t *Table) Row(cells ...Cell) error {
	t.rows = append(t.rows, cells)
	if len(t.rows) >= maxHeld {
		return t.Flush()
	}
	return nil
}

// Text is a row without colours.
func (t *Table) Text(cells ...string) error {
	row := make([]Cell, len(cells))
	for i, c := range cells {
		row[i].Text = c
	}
	return t.Row(row...)
}

// Flush writes the rows that were kept. Columns that were wide stay so.
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

// Printable is text without what a terminal would obey. Names of objects come
// from every client that may create them.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError {
			return '?'
		}
		return r
	}, s)
}

// Short cuts a list off where nobody would read on.
func Short(list []string, most int) string {
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return strings.Join(list[:most], ", ") + fmt.Sprintf(" and %d more", len(list)-most)
}
