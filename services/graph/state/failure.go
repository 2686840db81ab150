package state

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// failures detects that Pebble cannot write. Pebble reports that in three ways: by the
// error of a call; by an event, for background work, which it retries without end; and, if
// it does not know what is on disk, by a call of its logger's Fatalf. While it retries,
// calls may block for ever.
//
// A State fails at the first report, so that no caller blocks; the owner of the State
// decides what to do. failures implements pebble.Logger.
type failures struct {
	failed chan struct{} // closed after the first

	mark func(why error) error // records that the state is damaged; nil for nothing

	mu      sync.Mutex
	first   error
	damaged bool
}

var _ pebble.Logger = (*failures)(nil)

func newFailures() *failures { return &failures{failed: make(chan struct{})} }

func (f *failures) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first == nil {
		f.first = fmt.Errorf("state: %w", err)
		close(f.failed)
	}
}

func (f *failures) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.first
}

func (f *failures) corrupt(i pebble.DataCorruptionInfo) {
	f.damage(fmt.Errorf("%s", i))
}

// damage makes the state fail because a file of it is damaged, and records that for the
// next Open.
func (f *failures) damage(err error) {
	f.mu.Lock()
	first := !f.damaged
	f.damaged = true
	f.mu.Unlock()
	if !errors.Is(err, ErrDamaged) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if first && f.mark != nil {
		if fail := f.mark(err); fail != nil {
			err = fmt.Errorf("%w (which cannot be recorded: %w)", err, fail)
		}
	}
	f.fail(err)
}

// guard calls do, which may block for ever, and returns when do has returned or the state
// has failed.
func (f *failures) guard(do func() error) error {
	if err := f.err(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-f.failed:
		return f.err()
	}
}

// Infof implements pebble.Logger.
func (*failures) Infof(string, ...any) {}

// Errorf implements pebble.Logger.
func (*failures) Errorf(string, ...any) {}

// Fatalf implements pebble.Logger. It ends the calling goroutine, which releases its locks:
// one of Pebble's goroutines, or one of guard.
func (f *failures) Fatalf(format string, args ...any) {
	f.fail(fmt.Errorf(format, args...))
	runtime.Goexit()
}
