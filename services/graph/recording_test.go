package graph_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/recording"
	"github.com/coppice-gc/coppice/services/graph/snapshot"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// record writes the log of the realm from a sequence on to a file, as a client that may only read.
func record(tb testing.TB, n *installation, from uint64) (file string) {
	tb.Helper()
	c := n.as(bus.RoleReader)
	file = filepath.Join(tb.TempDir(), "log")
	f, err := os.Create(file)
	must.Succeed(tb, err)
	defer f.Close()
	w, err := segment.NewWriter(f)
	must.Succeed(tb, err)
	for c, err := range c.Log().Read(testkit.Context(tb), client.FromSequence(from), client.Undecoded(true)) {
		if err == nil {
			err = w.Add(c.Sequence, c.Stored)
		}
		if err != nil || c.Commit != nil {
			tb.Fatal(c.Commit, err)
		}
	}
	if _, err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return file
}

func noProgress(uint64, uint64) {}

// A recording is folded without a key and without NATS into the same state as the graph
// service has, and served with the same API, except for what changes something.
func TestRecording(t *testing.T) {
	t.Parallel()
	server, dir := t.TempDir(), t.TempDir()
	var file, part string
	run(t, server, dir, func(n *installation) {
		ctx, c := testkit.Context(t), n.application()
		var names []string
		for i := range 40 {
			names = append(names, fmt.Sprintf("many-%02d", i))
		}
		create(ctx, t, c, "one", "two", "three")
		create(ctx, t, c, names...)
		if _, err := n.JS().Publish(ctx, bus.LogSubject(realm), []byte("no commit")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Resource(configMaps, "a").DeleteBatch(ctx, append(names, "two")); err != nil {
			t.Fatal(err)
		}
		file, part = record(t, n, 1), record(t, n, 2)
	})
	ctx := testkit.Context(t)
	offline := filepath.Join(t.TempDir(), "offline")
	last := uint64(0)
	folded, err := recording.Fold(ctx, file, offline, func(at, _ uint64) { last = at })
	if err != nil || folded.Events == 0 || last != folded.Last.Sequence {
		t.Fatalf("folded %+v up to commit %d, %v", folded, last, err)
	}
	_, live := snapshotOf(t, dir)
	if got := offlineSnapshot(t, offline); got.Hash != live.Hash {
		t.Errorf("the state of the recording has the hash %x, and that of the graph service %x", got.Hash, live.Hash)
	}

	if _, err := recording.Fold(ctx, file, offline, noProgress); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("folded over another recording: %v", err)
	}
	other := filepath.Join(t.TempDir(), "other")
	var partial *recording.PartialError
	if _, err := recording.Fold(ctx, part, other, noProgress); !errors.As(err, &partial) || partial.First != 2 {
		t.Errorf("a recording from commit 2: %v", err)
	}
	b, err := os.ReadFile(file)
	if err == nil {
		b[len(b)/2] ^= 1
		err = os.WriteFile(part, b, 0o600)
	}
	must.Succeed(t, err)
	var damaged *segment.DamagedError
	if _, err := recording.Fold(ctx, part, other, noProgress); !errors.As(err, &damaged) || damaged.Offset == 0 {
		t.Errorf("a damaged recording: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(other), "*")); err != nil || len(left) > 0 {
		t.Errorf("refused recordings leave %v, %v", left, err)
	}

	serveRecording(t, offline)
	if _, err := recording.OpenRealm(other, realm); !errors.Is(err, recording.ErrNoRecording) {
		t.Errorf("a directory without a recording: %v", err)
	}
}

// offlineSnapshot returns what a snapshot of a folded recording says.
func offlineSnapshot(tb testing.TB, dir string) snapshot.Info {
	tb.Helper()
	snap, closeState := openState(tb, filepath.Join(dir, "state"))
	defer closeState()
	info, err := snapshot.Write(tb.Context(), io.Discard, snap, snapshot.WriteOptions{})
	must.Succeed(tb, err)
	return info
}

// serveRecording checks what clients of a recording read, and what is refused.
func serveRecording(tb testing.TB, dir string) {
	tb.Helper()
	ctx := testkit.Context(tb)
	r, err := recording.OpenRealm(dir, realm)
	must.Succeed(tb, err)
	defer func() {
		if err := r.Close(); err != nil {
			tb.Error(err)
		}
	}()
	if _, err := recording.OpenRealm(dir, realm); !errors.Is(err, state.ErrLocked) {
		tb.Errorf("served twice: %v", err)
	}
	nc, err := r.Conn()
	must.Succeed(tb, err)
	defer nc.Close()
	c := client.New(nc, client.WithActor("another"), client.WithRealm(realm))
	has(ctx, tb, c, "one", "three")
	objects := c.Resource(configMaps, "a")
	if o, err := objects.Get(ctx, "one"); err != nil || o.GetMetadata().GetUid() == "" {
		tb.Errorf("get: %v, %v", o, err)
	}
	if g, err := objects.Resolve(ctx, []string{"three"}); err != nil || len(g.GetNodes()) != 1 {
		tb.Errorf("resolve: %v, %v", g, err)
	}
	if p, err := objects.Plan(ctx, []string{"three"}); err != nil || p == nil {
		tb.Errorf("plan: %v, %v", p, err)
	}
	v, err := c.Operations().Verify(ctx)
	if err != nil || v.GetDifference() != "" || v.GetEvents() == 0 {
		tb.Errorf("verify: %v, %v", v, err)
	}
	log, last := c.Log(), uint64(0)
	for commit, err := range log.Read(ctx, client.FromSequence(1)) {
		if err != nil || commit.Commit == nil || commit.Sequence <= last || !bytes.Contains(commit.Stored, commit.GetRealmId()) {
			tb.Fatalf("commit at %d after %d: %v", commit.Sequence, last, err)
		}
		last = commit.Sequence
		for at, err := range log.Read(ctx, client.FromRevision(commit.GetFirstRevision()), client.Limit(1)) {
			if err != nil || at.GetFirstRevision() != commit.GetFirstRevision() {
				tb.Errorf("revision %d is read at %d, %v", commit.GetFirstRevision(), at.Sequence, err)
			}
		}
	}
	if end, err := log.Last(ctx); err != nil || end != last || last == 0 {
		tb.Errorf("the log ends at %d, %v, and %d was read", end, err, last)
	}
	for what, err := range map[string]error{
		"create":    second(objects.Create(ctx, configMap("four"))),
		"delete":    second(objects.Delete(ctx, "one")),
		"consumers": second(c.Operations().Consumers(ctx)),
		"warnings":  second(c.Warnings(ctx, "")),
		"watch": func() error {
			for _, err := range objects.Watch(ctx) {
				return err
			}
			return nil
		}(),
	} {
		if !errors.Is(err, client.ErrMethodNotAllowed) {
			tb.Errorf("%s: %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
