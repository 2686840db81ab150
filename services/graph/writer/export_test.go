package writer

import "time"

// SetAppends lets the writer take appends for that slow; before it runs.
func (w *Writer) SetAppends(quick time.Duration) { w.gather.quick = quick }
