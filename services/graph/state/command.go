package state

import (
	"encoding/binary"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
)

const (
	// KeepCommands is the time for which a command is recognised when it is repeated: until
	// the newest commit's time is more than this after both the time of the command's
	// commit and the time in its id.
	KeepCommands = 2 * time.Minute
	// CommandAhead is the maximum by which the time in a command's id may be after the time
	// of the command's commit.
	CommandAhead = time.Minute
)

// CommandID identifies a command of an actor: a UUIDv7. A command without an id has the
// zero CommandID.
type CommandID [16]byte

// Time returns the time in the id, in whole milliseconds. ok is false for an id that is not
// a UUIDv7 (RFC 9562): such a command is not recognised when it is repeated.
func (id CommandID) Time() (t lifecycle.Time, ok bool) {
	if id[6]>>4 != 7 || id[8]>>6 != 0b10 {
		return 0, false
	}
	return lifecycle.Time(id.milliseconds() * 1000), true
}

func (id CommandID) milliseconds() int64 { return int64(binary.BigEndian.Uint64(id[:]) >> 16) }

// CommandKey identifies a command. Ids are unique for each actor: commands of two actors
// with the same id are different commands.
type CommandKey struct {
	Actor string
	ID    CommandID
}

// Command is a command of a commit.
type Command struct {
	CommandKey
	// Unfinished: a later commit has the rest of the command.
	Unfinished bool
}

// Recorded is the position of a command in the log.
type Recorded struct {
	// Sequence is the sequence of the commit with the command, or with its last part so
	// far.
	Sequence uint64
	// Unfinished: no commit has the end of the command yet.
	Unfinished bool
}

// horizon returns the time before which commands are not kept any more.
func horizon(now lifecycle.Time) lifecycle.Time { return now.Add(-KeepCommands) }

// KeptSince returns a time before which no commit has a command that is still kept. newest is
// the time of the newest commit.
func KeptSince(newest lifecycle.Time) lifecycle.Time { return horizon(newest).Add(-CommandAhead) }

// commandSpan divides time into spans. The key of a command's row begins with the span of
// the later of the commit's time and the time in the id. When a span is before the horizon,
// its rows are deleted by one range.
const commandSpan = 30 * time.Second

func spanOf(t lifecycle.Time) uint32 { return uint32(max(int64(t), 0) / commandSpan.Microseconds()) }

// spanOfCommand returns the span of a command's row.
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

// commandRow has the commands of a commit that have an id.
type commandRow struct {
	sequence uint64
	time     lifecycle.Time // time of the commit
	commands []Command
}

// endCommands records the commands of a commit.
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

// encodeCommands encodes the rows of the commands that are kept at the end of the Tx, and
// deletes older rows.
func (tx *Tx) encodeCommands(w *batchWriter) {
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

// Command returns the position of a command in the log. ok is false if the command is not
// kept, or its commit is not applied yet.
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

// storedCommand is Command for a command that may be in the table. until is the time of the
// last commit that can have it.
func (s *State) storedCommand(k CommandKey, id, until lifecycle.Time) (r Recorded, ok bool, err error) {
	// Commands may be visible before their rows are written. The lock waits for the rows.
	s.mu.RLock()
	defer s.mu.RUnlock()
	reader := reader{db: s.db, failures: s.failures}
	horizon := horizon(lifecycle.Time(s.head.checkpoint.GetTime()))
	first := int64(spanOf(max(id, horizon)))
	for span := int64(spanOf(max(id, until))); span >= first && !ok; span-- { // the newest span has the last part of the command
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
