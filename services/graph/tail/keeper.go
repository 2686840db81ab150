package tail

import (
	"sync"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Keeper writes the mark of a log as the log grows. It is safe for concurrent use.
type Keeper struct {
	file string

	mu     sync.Mutex
	mark   Mark // in the file
	frozen bool
}

// Open returns the keeper of a file, with the mark in it. If the file cannot be read, the
// error says why, and the keeper has no mark and replaces the file.
func Open(file string) (*Keeper, error) {
	m, err := Read(file)
	return &Keeper{file: file, mark: m}, err
}

// Mark returns the last mark that was written.
func (k *Keeper) Mark() Mark {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mark
}

// Keep writes the mark of the last commit of a state. It does nothing if the mark names that commit
// or a later one, or while the mark is frozen.
func (k *Keeper) Keep(c *coppicev1.Checkpoint) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.frozen || c.GetSequence() <= k.mark.Sequence {
		return nil
	}
	m := Of(c)
	if err := Write(k.file, m); err != nil {
		return err
	}
	k.mark = m
	return nil
}

// Freeze keeps the mark as it is until Forget: the log has lost the commit that it names,
// and has not recorded that yet.
func (k *Keeper) Freeze() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.frozen = true
}

// Forget has the next Keep replace the mark by an earlier one: the log has recorded that
// the commit of the mark is lost. revision is that from which on the log continues; a mark
// that is not before it stays.
func (k *Keeper) Forget(revision uint64) (forgotten bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.frozen || k.mark.Revision >= revision {
		return false
	}
	k.frozen, k.mark = false, Mark{}
	return true
}
