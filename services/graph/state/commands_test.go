package state

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// commandAt is a command with an id of a time.
func commandAt(at lifecycle.Time, n uint64) Command {
	var id CommandID
	binary.BigEndian.PutUint64(id[:], uint64(at.Time().UnixMilli())<<16)
	binary.BigEndian.PutUint64(id[8:], n|1<<63)
	id[6] = 7 << 4
	return Command{CommandKey: CommandKey{Actor: "ana", ID: id}}
}

// commandRows counts the rows of the table.
func commandRows(t *testing.T, s *State) (n int) {
	t.Helper()
	r := reader{db: s.db}
	r.scan("commands", []byte{tableCommands}, nil, func(key, _ []byte) bool {
		if _, _, ok := splitCommandKey(key); !ok {
			t.Errorf("there is a key %x", key)
		}
		n++
		return true
	})
	if r.failure != nil {
		t.Fatal(r.failure)
	}
	return n
}

// A new command costs no read of the disk, however few are in memory. Those that
// are not are found in the table, and what is kept in both is bounded.
func TestCommandMemory(t *testing.T) {
	t.Parallel()
	s := smallState(t, vfs.NewMem())
	const inMemory = 10
	s.SetCommandMemory(inMemory * (bytesOfRow + bytesOfCommand))
	start := lifecycle.TimeOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	at := func(n int) lifecycle.Time { return start.Add(time.Duration(n) * time.Second) }
	const all = 600 // ten minutes, a commit each second
	const keep = int(KeepCommands / time.Second)
	for n := range all {
		k := commandAt(at(n).Add(-500*time.Millisecond), uint64(n))
		id, _ := k.ID.Time()
		if _, ok, older := s.commands.find(k.CommandKey, id); ok || older != 0 {
			t.Fatalf("command %d is new: it is known: %t, and looked for on disk: %t", n, ok, older != 0)
		}
		tx := s.Begin()
		tx.EndCommit(Commit{Sequence: uint64(n + 1), Time: at(n), Commands: []Command{k}})
		if _, err := tx.Apply(); err != nil {
			t.Fatal(err)
		}
		if s.commands.bytes > s.commands.most || len(s.commands.index) > inMemory || len(s.commands.rows) > inMemory {
			t.Fatalf("%d bytes are in memory, of %d commands", s.commands.bytes, len(s.commands.index))
		}
	}
	for n := range all {
		r, ok, err := s.Command(commandAt(at(n).Add(-500*time.Millisecond), uint64(n)).CommandKey)
		if kept := n >= all-1-keep; err != nil || ok != kept || ok && r.Sequence != uint64(n+1) {
			t.Errorf("command %d is known at %d, %t, %v", n, r.Sequence, ok, err)
		}
	}
	if rows, most := commandRows(t, s), keep+1+int(commandSpan/time.Second); rows > most {
		t.Errorf("the table has %d rows, want %d at most", rows, most)
	}
}

// A new state has nothing in memory. Only ids that are as old as those in the table
// are looked for there.
func TestCommandMemoryAfterOpen(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s, err := Open("state", Config{FS: fs})
	must.Succeed(t, err)
	start := lifecycle.TimeOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	k := commandAt(start.Add(-time.Second), 1)
	k.Unfinished = true
	tx := s.Begin()
	tx.EndCommit(Commit{Sequence: 1, Time: start, Commands: []Command{k}})
	if _, err := tx.Apply(); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, s.Sync())
	must.Succeed(t, s.Close())
	s = smallState(t, fs)
	if r, ok, err := s.Command(k.CommandKey); err != nil || !ok || r != (Recorded{Sequence: 1, Unfinished: true}) {
		t.Errorf("the command is known as %+v, %t, %v", r, ok, err)
	}
	fresh := commandAt(start.Add(time.Second), 2)
	id, _ := fresh.ID.Time()
	if _, _, older := s.commands.find(fresh.CommandKey, id); older != 0 {
		t.Error("a new command is looked for on disk")
	}
}

// An id that is not a UUIDv7, or too far ahead of its commit, is not recognised: in a
// log of another program it could be kept for ever.
func TestCommandsThatAreNotKept(t *testing.T) {
	t.Parallel()
	s := smallState(t, vfs.NewMem())
	start := lifecycle.TimeOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	random, ahead := commandAt(start, 1), commandAt(start.Add(CommandAhead+time.Millisecond), 2)
	random.ID[6] = 4 << 4
	tx := s.Begin()
	tx.EndCommit(Commit{Sequence: 1, Time: start, Commands: []Command{random, ahead}})
	if _, err := tx.Apply(); err != nil {
		t.Fatal(err)
	}
	for _, k := range []Command{random, ahead} {
		if _, ok, err := s.Command(k.CommandKey); ok || err != nil {
			t.Errorf("%x is known: %t, %v", k.ID, ok, err)
		}
	}
	if n := commandRows(t, s); n != 0 {
		t.Errorf("the table has %d rows", n)
	}
}
