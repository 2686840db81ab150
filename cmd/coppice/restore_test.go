package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/dirstore"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/secret"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// archiveLog stores the log of a realm of the running stack in an archive in a directory, as one segment behind those that
// the archive has: archivelog dir realm. It sets SEGMENT to its name.
func archiveLog(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: archivelog dir realm")
	}
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
	defer cancel()
	s := ts.Value(stackKey{}).(*stack)
	nc, err := s.running.Conn(bus.RoleGraph)
	ts.Check(err)
	js, err := jetstream.New(nc)
	ts.Check(err)
	secrets, err := secret.Load(filepath.Join(s.dir, secret.FileName))
	ts.Check(err)
	log, err := eventlog.OpenExisting(ctx, js, args[1], eventlog.NewKeys(secrets, args[1]))
	ts.Check(err)
	last, _, err := log.Last(ctx)
	ts.Check(err)
	store, err := dirstore.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	from := uint64(1)
	for e, err := range store.List(ctx, "") {
		ts.Check(err)
		r, err := archive.OpenSegment(ctx, store, e)
		ts.Check(err)
		from = r.Info().Last.Position + 1
	}
	var b bytes.Buffer
	w, err := segment.NewWriter(&b)
	ts.Check(err)
	end := errors.New("the end")
	if err := log.Follow(ctx, from, func(m eventlog.Message) error {
		if err := w.Add(m.Position, m.Data); err != nil {
			return err
		}
		if m.Position == last {
			return end
		}
		return nil
	}); !errors.Is(err, end) {
		ts.Check(err)
	}
	info, err := w.Close()
	ts.Check(err)
	name := archive.Name{Realm: info.RealmID, Kind: archive.Segment, First: info.First.Sequence, Last: info.Last.Sequence}.String()
	ts.Check(store.Put(ctx, name, &b, int64(b.Len())))
	ts.Setenv("SEGMENT", name)
}

// archiveIn returns the archive in a directory of data; nil if there is none.
func archiveIn(data string) (archive.Store, error) {
	dir := filepath.Join(data, "archive")
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil, nil //nolint:nilnil // there is none
	}
	return dirstore.Open(dir)
}
