package state

import "github.com/coppice-gc/coppice/internal/uid"

// Absent reports whether there is a row for an owner that is gone.
func (s *Snapshot) Absent(u uid.UID) bool {
	_, _, ok := s.r.absent(u)
	return ok
}

// Forget lets the next Tx look everything up.
func (s *State) Forget() { s.newest = nil }
