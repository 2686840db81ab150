package writer

import "time"

// SetAppends lets the writer take appends for that slow, and wait for half of that;
// before it runs.
func (w *Writer) SetAppends(quick time.Duration) { w.delay.quick, w.delay.most = quick, quick }
