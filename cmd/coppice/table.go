package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// table writes rows in columns. It holds rows back to find out how wide the
// columns are, but not more than some: what is listed may be long.
type table struct {
	w      io.Writer
	rows   [][]cell
	widths []int
}

// cell is a text and how it is coloured, nil for not at all.
type cell struct {
	text   string
	colour func(string) string
}

// maxHeld is how many rows are held back.
const maxHeld = 1000

func (t *table) row(cells ...cell) error {
	t.rows = append(t.rows, cells)
	if len(t.rows) >= maxHeld {
		return t.flush()
	}
	return nil
}

// text is a row without colours.
func (t *table) text(cells ...string) error {
	row := make([]cell, len(cells))
	for i, c := range cells {
		row[i].text = c
	}
	return t.row(row...)
}

// flush writes the rows that were held back. Columns that were wide stay so.
func (t *table) flush() error {
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(t.widths) {
				t.widths = append(t.widths, 0)
			}
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(c.text))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		for i, c := range row {
			text := printable(c.text)
			if c.colour != nil {
				text = c.colour(text)
			}
			b.WriteString(text)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(c.text)+3))
			}
		}
		b.WriteByte('\n')
	}
	t.rows = t.rows[:0]
	_, err := io.WriteString(t.w, b.String())
	return err
}

// printable is text without what a terminal would obey. Names of objects come
// from whoever may create them.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError {
			return '?'
		}
		return r
	}, s)
}

// short cuts a list off where nobody would read on.
func short(list []string, most int) string {
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return strings.Join(list[:most], ", ") + fmt.Sprintf(" and %d more", len(list)-most)
}
