package replay

import (
	"sync"
	"time"
)

// reportSkips is how often skipped messages are reported, at most.
const reportSkips = 10 * time.Second

// Skips counts the messages in a realm's log that are no commits, and reports them:
// the first at once, those of the next 10 s together. It is safe for concurrent use.
type Skips struct {
	// Report is required. It is called by one goroutine at a time.
	Report func(Skipped)

	mu      sync.Mutex
	counted uint64 // the last position that was counted: what follows the last commit is read again when the writer changes
	pending Skipped
	timer   *time.Timer // until pending may be reported; nil before the first report
	waiting bool        // for timer
}

// Skipped is a report of messages that are no commits.
type Skipped struct {
	Messages uint64
	Last     uint64 // position of the last of them in the stream
	Why      string // the last of them is no commit
}

// Add counts n messages, the last of which is at a position, and returns how many of
// them had not been counted before.
func (s *Skips) Add(position, n uint64, why string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if position <= s.counted {
		return 0
	}
	n = min(n, position-s.counted)
	s.counted = position
	s.pending = Skipped{Messages: s.pending.Messages + n, Last: position, Why: why}
	if !s.waiting {
		s.flush()
	}
	return n
}

// flush reports what is pending, if anything is, and waits before the next report.
func (s *Skips) flush() {
	s.waiting = s.pending.Messages > 0
	if !s.waiting {
		return
	}
	s.Report(s.pending)
	s.pending = Skipped{}
	s.timer = time.AfterFunc(reportSkips, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.waiting {
			s.flush()
		}
	})
}

// Stop reports what is pending at once.
func (s *Skips) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.pending.Messages > 0 {
		s.Report(s.pending)
	}
	s.pending, s.waiting = Skipped{}, false
}
