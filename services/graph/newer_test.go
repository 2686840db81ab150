package graph_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/coppice-gc/coppice/internal/codec/commitcodec"
	"github.com/coppice-gc/coppice/internal/secret"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// inFormat returns the commit that follows one which created one object, in a version of the
// log format. It is for the position behind that of the commit.
func inFormat(tb testing.TB, message []byte, at uint64, secrets secret.Secrets, format byte) []byte {
	tb.Helper()
	m := eventlog.Message{Position: at, Data: message}
	h, foreign := eventlog.NewKeys(testkit.Secrets(), realm).Check(m)
	if foreign != "" {
		tb.Fatal(foreign)
	}
	commit, err := m.Open(new([]byte))
	must.Succeed(tb, err)
	h.Sequence, h.Previous, h.ID = h.Sequence+1, eventlog.Checksum(commit), [16]byte{14}
	h.FirstRevision++
	b := eventlog.NewBuilder(h)
	b.Begin(eventlog.Command{Actor: "graph", Verb: "future"})
	b.End(eventlog.CommandRef{}, nil)
	enc := b.Bytes()
	field := bytes.Index(enc, []byte{commitcodec.CommitFormat<<3&0x7f | 0x80, commitcodec.CommitFormat >> 4, commitcodec.BaseFormat})
	if field < 0 {
		tb.Fatal("the commit has no format")
	}
	enc[field+2] = format
	sealed, err := eventlog.NewKeys(secrets, realm).Seal(enc, at+1)
	must.Succeed(tb, err)
	return sealed
}

// A graph service stops before a commit of a newer format, also one that has no state
// yet; it neither skips the commit nor writes behind it.
func TestNewerCommit(t *testing.T) {
	t.Parallel()
	server, dir := t.TempDir(), t.TempDir()
	run(t, server, dir, creating(t, "one"))
	n := installationIn(t, server)
	s := n.serve(dir, nil).writing()
	n.create("two")
	a := newAttacker(t, n)
	s.Stop()
	last := a.last(n.Ctx)
	a.publish(n.Ctx, inFormat(t, a.message(n.Ctx, last), last, testkit.Secrets(), commitcodec.Format+1))
	was := a.last(n.Ctx)
	for _, dir := range []string{dir, t.TempDir()} {
		err := n.serve(dir, nil).Wait()
		var newer *eventlog.NewerError
		if !errors.As(err, &newer) || newer.Format != commitcodec.Format+1 || !strings.Contains(err.Error(), "replace it by the version of Coppice") {
			t.Errorf("got %v", err)
		}
		if strings.Contains(err.Error(), "broken") {
			t.Errorf("the log is said to be broken: %v", err)
		}
		if is := a.last(n.Ctx); is != was {
			t.Errorf("the log ends at %d, and ended at %d", is, was)
		}
	}
}

// A graph service refuses a state that a newer version has written, and neither removes nor rebuilds it.
func TestNewerStateOnDisk(t *testing.T) {
	t.Parallel()
	server, dir := t.TempDir(), t.TempDir()
	run(t, server, dir, creating(t, "one"))
	key := []byte("ms")
	schema := func(change string) (is string) {
		db, err := pebble.Open(filepath.Join(dir, realm), &pebble.Options{FormatMajorVersion: pebble.FormatValueSeparation, Logger: quiet{}})
		must.Succeed(t, err)
		defer db.Close()
		if change != "" {
			must.Succeed(t, db.Set(key, []byte(change), pebble.Sync))
		}
		value, closer, err := db.Get(key)
		must.Succeed(t, err)
		defer closer.Close()
		return string(value)
	}
	schema(strconv.Itoa(state.Schema + 1))
	n := installationIn(t, server)
	err := n.serve(dir, nil).Wait()
	var newer *state.NewerError
	if !errors.As(err, &newer) || newer.Schema != state.Schema+1 || !strings.Contains(err.Error(), "use the version of Coppice that wrote it") {
		t.Errorf("got %v", err)
	}
	if is := schema(""); is != strconv.Itoa(state.Schema+1) {
		t.Errorf("the state has layout %s now", is)
	}
	schema(strconv.Itoa(state.Schema))
	s := n.serve(dir, nil).writing()
	n.create("two")
	s.Stop()
}

// quiet is a logger of Pebble.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}
