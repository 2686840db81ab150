package graph_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/codec/commitcodec"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/secret"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// attacker publishes to the log of a realm.
type attacker struct {
	testing.TB
	js     jetstream.JetStream
	stream jetstream.Stream
	sent   int
}

func newAttacker(tb testing.TB, n *installation) *attacker {
	tb.Helper()
	js := n.JS()
	stream := n.Stream(bus.LogStream(realm))
	return &attacker{TB: tb, js: js, stream: stream}
}

func (a *attacker) publish(ctx context.Context, message []byte) {
	a.Helper()
	if _, err := a.js.Publish(ctx, bus.LogSubject(realm), message); err != nil {
		a.Fatal(err)
	}
	a.sent++
}

// message is a message of the log, as it is stored.
func (a *attacker) message(ctx context.Context, sequence uint64) []byte {
	a.Helper()
	m, err := a.stream.GetMsg(ctx, sequence)
	must.Succeed(a, err)
	return m.Data
}

func (a *attacker) last(ctx context.Context) uint64 {
	a.Helper()
	info, err := a.stream.Info(ctx)
	must.Succeed(a, err)
	return info.State.LastSeq
}

// forged is a commit that continues the log in every way but for its key, which is
// derived from another secret.
func (a *attacker) forged(ctx context.Context, after uint64) []byte {
	a.Helper()
	h, foreign := eventlog.NewKeys(testkit.Secrets(), realm).Check(eventlog.Message{Position: after, Data: a.message(ctx, after)})
	if foreign != "" {
		a.Fatal(foreign)
	}
	h.Sequence++
	h.ID = [16]byte{13}
	b := eventlog.NewBuilder(h)
	b.NewKey(eventlog.KeyID{Number: 99})
	b.Begin(eventlog.Command{Actor: "eve", Verb: "create"})
	b.End(eventlog.CommandRef{}, nil)
	message, err := eventlog.NewKeys(secret.Secrets{}.Draw(), realm).Seal(b.Bytes(), a.last(ctx)+1)
	must.Succeed(a, err)
	return message
}

// attack publishes a message of each sort. The last message of the log is a commit.
func (a *attacker) attack(ctx context.Context) {
	a.Helper()
	last := a.last(ctx)
	commit := a.message(ctx, last)
	flipped := slices.Clone(commit)
	flipped[len(flipped)-1] ^= 1
	for _, message := range [][]byte{
		a.forged(ctx, last), nil, []byte("{}"), a.message(ctx, 1), commit, commit[:len(commit)/2], commit[:len(commit)-27], flipped, make([]byte, 100_000),
	} {
		a.publish(ctx, message)
	}
	a.publish(ctx, a.forged(ctx, last))
	a.publish(ctx, inFormat(a, commit, last, secret.Secrets{}.Draw(), commitcodec.Format+1))
}

// Messages in the log that are no commits of the realm are skipped: by the writer,
// which goes on, by a standby, after a restart, by a replica that makes its state
// from the log, and by verify. Each is counted.
func TestForeignMessages(t *testing.T) {
	t.Parallel()
	n, dir, standby := newInstallation(t), t.TempDir(), t.TempDir()
	registry := prometheus.NewRegistry()
	s := n.serve(dir, func(c *graph.Config) { c.Registry = registry }).writing()
	follower := n.serve(standby, nil)
	c := n.application()
	a := newAttacker(t, n)
	var names []string
	for i := range 3 {
		name := fmt.Sprint("n", i)
		create(n.Ctx, t, c, name)
		names = append(names, name)
		a.attack(n.Ctx)
	}
	create(n.Ctx, t, c, "n3")
	names = append(names, "n3")
	has(n.Ctx, t, c, names...)
	verified(t, n)
	testkit.WaitFor(t, n.Ctx, fmt.Sprintf("%d messages to be skipped", a.sent), func() bool {
		return int(metric(t, registry, "coppice_graph_log_skipped_total")) == a.sent
	})

	warned(n.Ctx, t, n)
	listed(n.Ctx, t, n, a)

	testkit.WaitFor(t, n.Ctx, "the standby to follow", func() bool { return follower.Ready() == nil })
	s.Stop()
	follower.writing()
	has(n.Ctx, t, c, names...)
	a.attack(n.Ctx)
	create(n.Ctx, t, c, "n4")
	names = append(names, "n4")
	verified(t, n)
	a.attack(n.Ctx) // also at the end of the log
	follower.Stop()

	for name, dir := range map[string]string{"of the standby": standby, "that was behind": dir, "made from the log": t.TempDir()} {
		s := n.serve(dir, nil).writing()
		has(n.Ctx, t, c, names...)
		verified(t, n)
		s.Stop()
		if t.Failed() {
			t.Fatalf("with the state %s", name)
		}
	}
}

// warned waits until the stream of warnings says that messages were skipped.
func warned(ctx context.Context, tb testing.TB, n *installation) {
	tb.Helper()
	reader := n.as(bus.RoleReader)
	testkit.WaitFor(tb, ctx, "a warning of skipped messages", func() bool {
		warnings, err := reader.Warnings(ctx, "")
		must.Succeed(tb, err)
		for _, w := range warnings {
			if w.Reason != lifecycle.WarnSkipped {
				continue
			}
			if w.Key() != "realms.coppice.dev/"+realm || !strings.Contains(w.Message, "no commits of the realm, the last at sequence ") {
				tb.Fatalf("the warning is %+v", w)
			}
			about, err := reader.Warnings(ctx, w.UID)
			if err != nil || len(about) != 1 {
				tb.Fatalf("the warnings about the realm's id are %+v, %v", about, err)
			}
			return true
		}
		return false
	})
}

// listed checks that a reader of the log receives each skipped message if it asks for them,
// and none otherwise.
func listed(ctx context.Context, tb testing.TB, n *installation, a *attacker) {
	tb.Helper()
	log := n.as(bus.RoleReader).Log()
	for _, of := range []client.LogOptions{{FromSequence: 1, Skipped: true}, {FromSequence: 1, Skipped: true, Name: "n1"}, {FromSequence: 1}} {
		skipped, at := 0, uint64(0)
		for c, err := range log.Read(ctx, of) {
			must.Succeed(tb, err)
			if c.Sequence <= at || (c.Commit == nil) != (c.Skipped != "") {
				tb.Fatalf("after sequence %d comes %+v", at, c)
			}
			if at = c.Sequence; c.Commit == nil {
				skipped++
			}
		}
		want := 0
		if of.Skipped {
			want = a.sent
		}
		if skipped != want {
			tb.Errorf("%+v lists %d skipped messages, want %d", of, skipped, want)
		}
	}
}

// metric is the sum of a registered metric.
func metric(tb testing.TB, registry *prometheus.Registry, name string) float64 {
	tb.Helper()
	sum, ok := testkit.Metric(tb, registry, name)
	if !ok {
		tb.Fatalf("there is no metric %s", name)
	}
	return sum
}

// A stream of foreign messages stops no command.
func TestForeignMessagesUnderLoad(t *testing.T) {
	t.Parallel()
	n := newInstallation(t)
	s := n.serve(t.TempDir(), nil).writing()
	c := n.as(bus.RoleApplication, client.WithTimeout(testkit.Timeout))
	a := newAttacker(t, n)
	create(n.Ctx, t, c, "first")
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		rate := time.NewTicker(5 * time.Millisecond)
		defer rate.Stop()
		for {
			select {
			case <-stop:
				return
			case <-rate.C:
			}
			if _, err := a.js.Publish(n.Ctx, bus.LogSubject(realm), []byte("noise")); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	names := []string{"first"}
	for i := range 30 {
		name := fmt.Sprintf("n%02d", i)
		create(n.Ctx, t, c, name)
		names = append(names, name)
	}
	close(stop)
	testkit.Receive(t, n.Ctx, "the end of the messages", ended)
	has(n.Ctx, t, c, names...)
	verified(t, n)
	s.Stop()
}

// A service with another secret than the log was written with refuses to start, and
// changes nothing; so does one that lacks the newest secret.
func TestWrongSecret(t *testing.T) {
	t.Parallel()
	server, dir := t.TempDir(), t.TempDir()
	run(t, server, dir, creating(t, "one"))
	n := installationIn(t, server)
	js := n.JS()
	with := func(secrets secret.Secrets) func(*graph.Config) {
		return func(c *graph.Config) { c.Secrets = secrets }
	}
	refuses := func(dir string, secrets secret.Secrets) {
		t.Helper()
		was := lastOf(t, js)
		err := n.serve(dir, with(secrets)).Wait()
		var wrong *eventlog.KeyError
		if !errors.As(err, &wrong) || wrong.Realm != realm || !strings.Contains(err.Error(), "start it with the secret") {
			t.Errorf("got %v", err)
		}
		if is := lastOf(t, js); is != was {
			t.Errorf("the log ends at %d, and ended at %d", is, was)
		}
	}
	other := secret.Secrets{}.Draw()
	refuses(dir, other)
	refuses(t.TempDir(), other)

	both := testkit.Secrets().Draw()
	s := n.serve(dir, with(both)).writing()
	n.create("two")
	verified(t, n)
	s.Stop()
	refuses(dir, testkit.Secrets())
	refuses(t.TempDir(), testkit.Secrets())
	refuses(t.TempDir(), testkit.Secrets().Draw()) // of the same number, and another
	s = n.serve(t.TempDir(), with(both)).writing()
	n.has("one", "two")
	s.Stop()
}

// A commit of another realm is none of this one.
func TestCommitOfAnotherRealm(t *testing.T) {
	t.Parallel()
	n := installationOn(t, natsd.Config{Dir: t.TempDir(), Roles: bus.Roles(realm, "other")})
	s := n.serve(t.TempDir(), func(c *graph.Config) { c.Realms = []string{realm, "other"} }).writing()
	a := newAttacker(t, n)
	n.create("one")
	other, err := a.js.Stream(n.Ctx, bus.LogStream("other"))
	must.Succeed(t, err)
	first, err := other.GetMsg(n.Ctx, 1)
	must.Succeed(t, err)
	a.publish(n.Ctx, first.Data)
	n.create("two")
	n.has("one", "two")
	verified(t, n)
	s.Stop()
}
