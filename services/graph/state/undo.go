package state

import "slices"

// undoLog undoes the changes of a Tx since a savepoint.
type undoLog struct {
	undo      []func() // what undoes each change, oldest first
	recording bool     // changes are recorded
}

// Savepoint begins to record changes, so that Rollback can undo them. Rollback or Release
// must be called before the next Savepoint.
func (l *undoLog) Savepoint() { l.undo, l.recording = l.undo[:0], true }

// Rollback undoes what was added since the Savepoint.
func (l *undoLog) Rollback() {
	l.recording = false
	for _, f := range slices.Backward(l.undo) {
		f()
	}
	l.Release()
}

// Release keeps what was added since the Savepoint.
func (l *undoLog) Release() {
	l.recording = false
	clear(l.undo)
	l.undo = l.undo[:0]
}

// onRollback has Rollback call f.
func (l *undoLog) onRollback(f func()) {
	if l.recording {
		l.undo = append(l.undo, f)
	}
}
