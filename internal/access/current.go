package access

import "sync/atomic"

// Current is the table that counts now. The zero value has none. It is safe for concurrent use.
type Current struct{ table atomic.Pointer[Table] }

// Table returns the table, nil if there is none, also if c is nil.
func (c *Current) Table() *Table {
	if c == nil {
		return nil
	}
	return c.table.Load()
}

// Set replaces the table.
func (c *Current) Set(t *Table) { c.table.Store(t) }
