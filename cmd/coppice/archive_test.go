package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/dirstore"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/internal/segment/segmenttest"
	"github.com/coppice-gc/coppice/services/graph/archivestate"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// archiveSegment puts a segment with commits of a log into an archive in a directory:
// segment dir first last. The variable SEGMENT is then the path of its file.
func archiveSegment(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: segment dir first last")
	}
	first, err := strconv.ParseUint(args[1], 10, 64)
	ts.Check(err)
	last, err := strconv.ParseUint(args[2], 10, 64)
	ts.Check(err)
	var b bytes.Buffer
	w, err := segment.NewWriter(&b)
	ts.Check(err)
	for _, m := range segmenttest.New(int(last)).Messages[first-1:] {
		ts.Check(w.Add(m.Position, m.Data))
	}
	info, err := w.Close()
	ts.Check(err)
	name := archive.Name{Realm: info.RealmID, Kind: archive.Segment, First: first, Last: last}.String()
	dir := ts.MkAbs(args[0])
	s, err := dirstore.Create(dir)
	ts.Check(err)
	ts.Check(s.Put(context.Background(), name, &b, int64(b.Len())))
	ts.Setenv("SEGMENT", dir+"/"+name)
}

// archiveSnapshot puts a verified snapshot of a state without objects after a commit of the same log
// into an archive in a directory: snapshot dir sequence.
func archiveSnapshot(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: snapshot dir sequence")
	}
	sequence, err := strconv.ParseUint(args[1], 10, 64)
	ts.Check(err)
	dir, err := os.MkdirTemp(ts.Getenv("WORK"), "state")
	ts.Check(err)
	s, err := state.Open(dir, state.Config{MemTableSize: 1 << 20, CacheSize: 1 << 20})
	ts.Check(err)
	last := segmenttest.New(int(sequence)).Last
	tx := s.Begin()
	tx.EndCommit(state.Commit{Sequence: last.Sequence, Position: last.Position, Epoch: 1, Time: last.Time, Checksum: last.Checksum, RealmID: segmenttest.Realm[:]})
	_, err = tx.Apply()
	ts.Check(err)
	store, err := dirstore.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	snap := s.Snapshot()
	_, err = archivestate.PutSnapshot(context.Background(), store, snap, "", "test", time.Now())
	ts.Check(errors.Join(err, snap.Close(), s.Close()))
}
