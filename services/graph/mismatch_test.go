package graph_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// copyOf copies a directory whose server has ended.
func copyOf(tb testing.TB, dir string) string {
	tb.Helper()
	to := filepath.Join(tb.TempDir(), "copy")
	must.Succeed(tb, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// run runs a server and a graph service, does something, and ends both.
func run(tb testing.TB, server, dir string, do func(*installation)) {
	tb.Helper()
	n := installationIn(tb, server)
	s := n.serve(dir, nil).writing()
	do(n)
	s.Stop()
	n.shutdown()
}

// creating is a do of run that creates objects.
func creating(tb testing.TB, names ...string) func(*installation) {
	tb.Helper()
	return func(n *installation) { create(testkit.Context(tb), tb, n.application(), names...) }
}

// A log that is not, or not any more, the one that the state has seen is
// refused, with a text that says what to do. Nothing is changed, and a state that is
// removed changes nothing either: the log is followed only when the loss is accepted.
func TestMismatch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// log makes another log of the one that the state has seen, and the
		// one from before that.
		log  func(t *testing.T, server, older string) string
		want string
		has  []string // once the state was created again
	}{
		"went backwards": {
			log:  func(_ *testing.T, _, older string) string { return older },
			want: "the log went backwards",
			has:  []string{"one"},
		},
		"has another history": {
			log: func(t *testing.T, _, older string) string {
				t.Helper()
				run(t, older, t.TempDir(), creating(t, "x1", "x2", "x3", "x4", "x5"))
				return older
			},
			want: "it is another history",
			has:  []string{"one", "x1", "x2", "x3", "x4", "x5"},
		},
		"was created again": {
			log: func(t *testing.T, server, _ string) string {
				t.Helper()
				n := installationIn(t, server)
				must.Succeed(t, n.JS().DeleteStream(testkit.Context(t), bus.LogStream(realm)))
				n.shutdown()
				run(t, server, t.TempDir(), creating(t, "anew"))
				return server
			},
			want: "was created again",
			has:  []string{"anew"},
		},
		"is gone": {
			log: func(t *testing.T, _, _ string) string {
				t.Helper()
				return t.TempDir()
			},
			want: "is gone",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, dir := t.TempDir(), t.TempDir()
			run(t, server, dir, creating(t, "one"))
			older := copyOf(t, server)
			run(t, server, dir, creating(t, "two", "three"))
			before := checkpoint(t, dir)
			other := c.log(t, server, older)

			n := installationIn(t, other)
			js := n.JS()
			was := lastOf(t, js)
			s := n.serve(dir, nil)
			err := s.Wait()
			var mismatch *replay.MismatchError
			if !errors.As(err, &mismatch) || mismatch.Realm != realm {
				t.Fatalf("got %v", err)
			}
			for _, want := range []string{c.want, "realm " + realm, "Restore the log", fmt.Sprintf("--accept-loss %s@%d", realm, before.GetSequence())} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if is := lastOf(t, js); is != was {
				t.Errorf("the log ends at %d, and ended at %d", is, was)
			}
			if is := checkpoint(t, dir); !proto.Equal(is, before) {
				t.Errorf("the state was at %s and is at %s", before, is)
			}

			must.Succeed(t, state.Remove(filepath.Join(dir, realm)))
			if err := n.serve(dir, nil).Wait(); !errors.As(err, &mismatch) {
				t.Fatalf("without the state, the service has forgotten the commits that it has seen: %v", err)
			}
			accept := func(c *graph.Config) { c.AcceptLoss = map[string]uint64{realm: before.GetSequence()} }
			s = n.serve(dir, accept).writing()
			n.has(c.has...)
			s.Stop()
		})
	}
}

// A state that was being made from its log when its process ended leaves out
// objects that the log removes only later. It is thrown away, and created again; but
// not for another log than the one that it has seen.
func TestUnfinishedState(t *testing.T) {
	t.Parallel()
	server, dir := t.TempDir(), t.TempDir()
	run(t, server, dir, creating(t, "one"))
	s, err := state.Open(filepath.Join(dir, realm), state.Config{})
	must.Succeed(t, err)
	cp := s.Checkpoint()
	tx := s.Begin()
	tx.EndCommit(state.Commit{
		Sequence: cp.GetSequence(), ElidedUntil: cp.GetSequence() + 1, Epoch: cp.GetEpoch(), Time: lifecycle.Time(cp.GetTime()),
		Checksum: cp.GetChecksum(), RealmID: cp.GetRealmId(), StreamCreated: cp.GetStreamCreated(),
		Key: cp.GetKey(), KeyFingerprint: cp.GetKeyFingerprint(), Position: cp.GetPosition(),
	})
	if _, err := tx.Apply(); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, errors.Join(s.Sync(), s.Close()))
	var unfinished *state.UnfinishedError
	if _, err := state.Open(filepath.Join(dir, realm), state.Config{}); !errors.As(err, &unfinished) {
		t.Fatalf("opened: %v", err)
	}
	for range 2 { // it is refused, and stays as it is
		var mismatch *replay.MismatchError
		if err := newInstallation(t).serve(dir, nil).Wait(); !errors.As(err, &mismatch) {
			t.Fatalf("without its log: %v", err)
		}
	}
	run(t, server, dir, func(n *installation) {
		n.has("one")
		if d := n.verify().GetDifference(); d != "" {
			t.Errorf("the state that was created again differs: %s", d)
		}
	})
}

// openState returns a snapshot of the state in a directory, and what closes both.
func openState(tb testing.TB, dir string) (snap *state.Snapshot, closeState func()) {
	tb.Helper()
	s, err := state.Open(dir, state.Config{})
	must.Succeed(tb, err)
	snap = s.Snapshot()
	return snap, func() {
		if err := errors.Join(snap.Close(), s.Close()); err != nil {
			tb.Error(err)
		}
	}
}

// checkpoint is how far a state has got.
func checkpoint(tb testing.TB, dir string) *coppicev1.Checkpoint {
	tb.Helper()
	s, err := state.Open(filepath.Join(dir, realm), state.Config{})
	must.Succeed(tb, err)
	defer s.Close()
	return s.Checkpoint()
}

// lastOf is where the log ends, -1 if there is none.
func lastOf(tb testing.TB, js jetstream.JetStream) int64 {
	tb.Helper()
	s, err := js.Stream(testkit.Context(tb), bus.LogStream(realm))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return -1
	}
	must.Succeed(tb, err)
	return int64(s.CachedInfo().State.LastSeq)
}

// A stream that may lose or delay what it has acknowledged is no log.
func TestUnfitLog(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*jetstream.StreamConfig){
		"storage":              func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"max_age":              func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"max_msgs":             func(c *jetstream.StreamConfig) { c.MaxMsgs = 1000 },
		"max_bytes":            func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 30 },
		"discard":              func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
		"retention":            func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy },
		"deny_delete":          func(c *jetstream.StreamConfig) { c.DenyDelete = false },
		"no_ack":               func(c *jetstream.StreamConfig) { c.NoAck = true },
		"persist_mode":         func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode },
		"max_msg_size":         func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1000 },
		"max_msgs_per_subject": func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 },
		"allow_msg_ttl":        func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true },
		"one subject":          func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, "another") },
		"allow_rollup_hdrs":    func(c *jetstream.StreamConfig) { c.AllowRollup = true },
		"subject":              func(c *jetstream.StreamConfig) { c.Subjects = []string{"coppice.other.log"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newInstallation(t)
			js := n.JS()
			config := bus.LogConfig(realm, 1)
			change(&config)
			stream, err := js.CreateStream(n.Ctx, config)
			must.Succeed(t, err)
			was := stream.CachedInfo().Config
			err = n.serve(t.TempDir(), nil).Wait()
			if err == nil || !strings.Contains(err.Error(), "cannot hold a log") || !strings.Contains(err.Error(), bus.LogStream(realm)) {
				t.Errorf("got %v", err)
			}
			info, err := stream.Info(n.Ctx)
			must.Succeed(t, err)
			if info.State.LastSeq != 0 || info.Config.Storage != was.Storage || info.Config.MaxAge != was.MaxAge {
				t.Errorf("the stream was changed, or written to: %+v", info)
			}
		})
	}
}
