package state

import "github.com/coppice-gc/coppice/internal/uid"

// Absent reports whether there is a row for an owner that is gone.
func (s *Snapshot) Absent(u uid.UID) bool {
	_, _, ok := s.r.absent(u)
	return ok
}

// Forget lets the next Tx look everything up.
func (s *State) Forget() { s.newest = nil }

// ForgetCommands has the commands looked up in the table, as when the state was opened.
func (s *State) ForgetCommands() {
	s.commands = newCommands(commandMemory)
	s.commands.load(s.Checkpoint())
}
