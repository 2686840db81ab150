package eventlog

import "time"

// SetPatience says how long a log may be behind.
func (l *Log) SetPatience(d time.Duration) { l.patience = d }
