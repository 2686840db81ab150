package eventlog

import (
	"sync/atomic"
	"time"

	"github.com/coppice-gc/coppice/services/graph/clock"
)

// pending is the append whose outcome is not known yet.
type pending struct {
	since atomic.Int64 // clock.SinceBoot when it began; 0 if there is none
	why   atomic.Pointer[error]
}

func (p *pending) begin() { p.since.Store(int64(clock.SinceBoot())) }

// failed records why an attempt failed.
func (p *pending) failed(reason error) { p.why.Store(&reason) }

func (p *pending) end() {
	p.since.Store(0)
	p.why.Store(nil)
}

// Pending returns for how long the current append has been waiting, and the error of its
// last attempt, nil if that is unknown. The age is zero if no append is waiting. Appends
// wait, for instance, while the disk of NATS is full or the stream has no leader.
func (l *Log) Pending() (age time.Duration, reason error) {
	since := l.pending.since.Load()
	if since == 0 {
		return 0, nil
	}
	if why := l.pending.why.Load(); why != nil {
		reason = *why
	}
	return clock.SinceBoot() - time.Duration(since), reason
}
