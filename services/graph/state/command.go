package state

import (
	"encoding/binary"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
)

const (
	// KeepCommands is how long a command is recognised: as long as its commit's time
	// or the time in its id is at most this before the newest commit's time.
	KeepCommands = 2 * time.Minute
	// CommandAhead is how far the time in a command's id may be after the time of the
	// commit that has the command.
	CommandAhead = time.Minute
)

// CommandID identifies a command of an actor: a UUIDv7. The zero CommandID is none.
type CommandID [16]byte

// Time is the time in the id, to a millisecond. It is false for an id that is not
// a UUIDv7 (RFC 9562): such a command is not recognised when it is repeated.
func (id CommandID) Time() (t lifecycle.Time, ok bool) {
	if id[6]>>4 != 7 || id[8]>>6 != 0b10 {
		return 0, false
	}
	return lifecycle.Time(id.milliseconds() * 1000), true
}

func (id CommandID) milliseconds() int64 { return int64(binary.BigEndian.Uint64(id[:]) >> 16) }

// CommandKey is what a repeated command is recognised by. An id counts for its
// actor only: another actor's command with the same id is another command.
type CommandKey struct {
	Actor string
	ID    CommandID
}

// Command is a command of a commit.
type Command struct {
	CommandKey
	// Unfinished: a later commit has the rest of it.
	Unfinished bool
}

// Recorded is where the log has a command.
type Recorded struct {
	// Sequence is that of the commit with the command, or with its last part so far.
	Sequence uint64
	// Unfinished: no commit has the end of the command yet.
	Unfinished bool
}

// horizon is the earliest time that counts for a command to be kept at a time.
func horizon(now lifecycle.Time) lifecycle.Time { return now.Add(-KeepCommands) }

// A row of the table of commands is one command. Its key begins with a span of
// time, of the later of the commit's time and the id's: rows of a span are deleted
// together, by range, once the span is behind the horizon.
const commandSpan = 30 * time.Second

func spanOf(t lifecycle.Time) uint32 { return uint32(max(int64(t), 0) / commandSpan.Microseconds()) }

// spanOfCommand is the span of a command's row.
func spanOfCommand(committed lifecycle.Time, id CommandID) (span uint32, ok bool) {
	t, ok := id.Time()
	return spanOf(max(committed, t)), ok
}

func appendRecorded(b []byte, r Recorded, committed lifecycle.Time) []byte {
	flags := uint64(0)
	if r.Unfinished {
		flags = 1
	}
	b = binary.AppendUvarint(b, r.Sequence)
	b = binary.AppendUvarint(b, uint64(committed))
	return binary.AppendUvarint(b, flags)
}

func decodeRecorded(b []byte) (r Recorded, committed lifecycle.Time, err error) {
	var at, flags uint64
	err = decodeUvarints(b, &r.Sequence, &at, &flags)
	r.Unfinished = flags&1 != 0
	return r, lifecycle.Time(at), err
}

// commandRow is the commands of a commit that have an id.
type commandRow struct {
	sequence uint64
	time     lifecycle.Time // of the commit
	commands []Command
}

// endCommands ends the commands of a commit.
func (tx *Tx) endCommands(c Commit) {
	kept := c.Commands[:0]
	for _, k := range c.Commands {
		if t, ok := k.ID.Time(); ok && t <= c.Time.Add(CommandAhead) {
			kept = append(kept, k)
			tx.checkpoint.NewestCommandId = max(tx.checkpoint.NewestCommandId, k.ID.milliseconds())
		}
	}
	if len(kept) > 0 {
		tx.commands = append(tx.commands, commandRow{c.Sequence, c.Time, kept})
	}
}

// writeCommands writes the rows of commands that are kept at the end of the Tx,
// and deletes those that no longer are.
func (tx *Tx) writeCommands(w *writer) {
	first := spanOf(horizon(lifecycle.Time(tx.checkpoint.GetTime())))
	if was := spanOf(horizon(tx.began)); tx.began != 0 && was < first {
		w.deleteSpans(was, first)
	}
	for _, row := range tx.commands {
		for _, k := range row.commands {
			span, _ := spanOfCommand(row.time, k.ID)
			if span < first {
				continue
			}
			w.key = commandKey(w.key[:0], span, k.CommandKey)
			w.value = appendRecorded(w.value[:0], Recorded{row.sequence, k.Unfinished}, row.time)
			w.put(w.key, w.value)
		}
	}
}

// Command returns where the log has a command, if it is kept. Commands of commits
// that are not flushed are not known.
func (s *State) Command(k CommandKey) (r Recorded, ok bool, err error) {
	id, ok := k.ID.Time()
	if !ok {
		return r, false, nil
	}
	r, ok, older := s.commands.find(k, id)
	if ok || older == 0 {
		return r, ok, nil
	}
	return s.storedCommand(k, id, older)
}

// SetCommandMemory bounds the memory of commands, in bytes; for tests. The default is
// 64 MiB.
func (s *State) SetCommandMemory(bytes int) { s.commands.setMost(bytes) }

// storedCommand is Command for one that a commit of a time, or an earlier one, may have.
func (s *State) storedCommand(k CommandKey, id, until lifecycle.Time) (r Recorded, ok bool, err error) {
	// A commit may be known before it is written: that waits.
	s.mu.RLock()
	defer s.mu.RUnlock()
	reader := reader{db: s.db}
	horizon := horizon(lifecycle.Time(s.checkpoint.GetTime()))
	first := int64(spanOf(max(id, horizon)))
	for span := int64(spanOf(max(id, until))); span >= first && !ok; span-- { // the last part is in the newest
		reader.get("command", commandKey(nil, uint32(span), k), func(v []byte) error {
			at, committed, err := decodeRecorded(v)
			if err == nil && max(committed, id) >= horizon {
				r, ok = at, true
			}
			return err
		})
	}
	return r, ok, reader.failure
}
