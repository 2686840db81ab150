package writer

import "time"

// SetNow sets the clock by which requests expire, before the writer runs.
func (w *Writer) SetNow(now func() time.Time) { w.now = now }

// SetAppends lets the writer take appends for that slow, and wait for half of that;
// before it runs.
func (w *Writer) SetAppends(quick time.Duration) { w.delay.quick, w.delay.most = quick, quick }
