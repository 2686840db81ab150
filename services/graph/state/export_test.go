package state

import (
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// Sessions are the rows of import sessions, with the time of the last command.
func (s *Snapshot) Sessions() map[string]lifecycle.Time {
	rows := map[string]lifecycle.Time{}
	s.r.scan("sessions", []byte{tableSession}, nil, func(key, value []byte) bool {
		var last uint64
		if err := decodeUvarints(value, &last); err != nil {
			s.r.fail("sessions", err)
		}
		rows[string(key[1:])] = lifecycle.Time(last)
		return true
	})
	return rows
}

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

// SetTable has a Loader begin another of Pebble's tables after so many bytes.
func (l *Loader) SetTable(bytes int) { l.most = bytes }

// LabelsOfBody are the labels of an encoded body.
var LabelsOfBody = labelsOf
