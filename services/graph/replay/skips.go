package replay

import (
	"sync"
	"time"
)

// reportSkips is the minimum time between two reports of skipped messages.
const reportSkips = 10 * time.Second

// Skips counts the messages in a realm's log that are no commits, and reports them:
// the first at once, those of the next 10 s together. It is safe for concurrent use.
type Skips struct {
	// Report is required. It is never called concurrently.
	Report func(Skipped)

	mu      sync.Mutex
	counted uint64 // position of the last counted message; a new writer reads messages after the last commit again
	pending Skipped
	timer   *time.Timer // fires when pending may be reported; nil before the first report
	waiting bool        // the timer runs
}

// Skipped is a report of messages that are no commits.
type Skipped struct {
	Messages uint64
	Last     uint64 // position of the last of them in the stream
	Why      string // why the last of them is no commit
}

// Add counts n messages, of which the last has a position, and returns how many of them
// were not counted before.
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

// flush reports pending messages, if there are any, and starts the timer.
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

// Stop reports pending messages at once.
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
