package eventlog

import "time"

// SetMaxLag says how long a log may be behind.
func (l *Log) SetMaxLag(d time.Duration) { l.maxLag = d }
