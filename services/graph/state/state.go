package state

import (
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// State is a realm's state. Its methods are safe for concurrent use. A Tx is not, and only
// one may be open at a time: see Tx.Next.
type State struct {
	db       *pebble.DB
	dir      string
	fs       vfs.FS
	options  *pebble.Options
	failures *failures

	removed    *window[uint64] // the removed uids, by uidHash
	commands   *commands
	recent     *recent
	nameFilter *nameFilter

	mu     sync.RWMutex // locked while a batch is written and the fields below change, from the call of answer on
	head   head
	newest *Tx // the Tx that was applied last; nil if it was large
}

// write writes a batch to Pebble. If the state has failed, it returns the failure.
func (s *State) write(b *pebble.Batch) error {
	if err := s.failures.guard(func() error { return s.db.Apply(b, pebble.NoSync) }); err != nil {
		s.failures.fail(err)
		return fmt.Errorf("state: write: %w", err)
	}
	return nil
}

// Checkpoint returns the position in the log up to which the state is its fold. It must
// not be modified.
func (s *State) Checkpoint() *coppicev1.Checkpoint {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.head.checkpoint
}

// Metrics returns Pebble's metrics.
func (s *State) Metrics() *pebble.Metrics { return s.db.Metrics() }

// Sync writes everything to disk, so that the next start need not fold it again after a
// crash.
func (s *State) Sync() error {
	if err := s.failures.guard(s.db.Flush); err != nil {
		return fmt.Errorf("state: flush: %w", err)
	}
	return nil
}

// Close closes the state. Neither it nor its Snapshots may be used afterwards. If the
// state has failed and Pebble does not close in time, Close returns nevertheless, and the
// directory is in use until the process ends.
func (s *State) Close() error {
	done := make(chan error, 1)
	go func() { done <- protect(s.db.Close) }()
	var given <-chan time.Time
	for failed := s.failures.failed; ; {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("state: close %s: %w", s.dir, err)
			}
			return nil
		case <-failed:
			failed, given = nil, time.After(closeTimeout)
		case <-given:
			return fmt.Errorf("state: close %s: %w", s.dir, s.Failure())
		}
	}
}

// closeTimeout is the time that a failed state has to close.
const closeTimeout = 2 * time.Second

// Failed returns a channel that is closed when the state has failed: Pebble cannot write any
// more, because the disk is full or broken, or a file of the state is damaged (ErrDamaged).
// The State must then be closed. Unless it is damaged, it stays the fold of a prefix of the
// log on disk, or unfinished (UnfinishedError).
func (s *State) Failed() <-chan struct{} { return s.failures.failed }

// Failure returns why the state has failed, nil if it has not.
func (s *State) Failure() error { return s.failures.err() }

// Kinds returns the kinds that are registered now.
func (s *State) Kinds() *lifecycle.Kinds {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.head.kinds
}

// Settings returns the current realm settings.
func (s *State) Settings() lifecycle.Settings {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.head.settings
}

// CopyTo writes a copy of the state into a directory that does not exist. The copy shares
// files with the state where the file system can (hard links), and can be opened and changed
// like any state. Effects that are not synced may be missing: see Sync.
func (s *State) CopyTo(dir string) error {
	if err := s.failures.guard(func() error { return protect(func() error { return s.db.Checkpoint(dir) }) }); err != nil {
		return fmt.Errorf("state: copy %s to %s: %w", s.dir, dir, err)
	}
	return nil
}
