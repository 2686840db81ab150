package state

import "github.com/cockroachdb/pebble/v2"

// batchWriter writes rows to a batch. It keeps the first error, after which the batch must not be
// written to Pebble.
type batchWriter struct {
	b          *pebble.Batch
	key, value []byte // scratch
	err        error
}

func (w *batchWriter) put(key, value []byte) {
	if err := w.b.Set(key, value, nil); err != nil && w.err == nil {
		w.err = err
	}
}

func (w *batchWriter) delete(key []byte) {
	if err := w.b.Delete(key, nil); err != nil && w.err == nil {
		w.err = err
	}
}

// deleteSpans deletes the rows of the commands whose span is at least from and less than until.
func (w *batchWriter) deleteSpans(from, until uint32) {
	if err := w.b.DeleteRange(commandSpanKey(nil, from), commandSpanKey(nil, until), nil); err != nil && w.err == nil {
		w.err = err
	}
}

// drop deletes the rows that leave a window when rows are added to it, and returns their
// number.
func drop[K comparable](w *batchWriter, table byte, from *window[K], added []windowRow[K]) int {
	n, _ := from.surplus(added)
	for i := range n {
		w.delete(numberKey(table, from.row(i, added).sequence))
	}
	return n
}
