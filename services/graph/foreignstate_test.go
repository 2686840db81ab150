package graph_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/secret"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/tail"
)

// refused starts a graph service that must not become ready, with an error that says some texts and not others.
func refused(tb testing.TB, n *installation, dir string, change func(*graph.Config), says, not []string) {
	tb.Helper()
	s := n.serve(dir, change)
	var err error
	defer func() {
		if tb.Failed() {
			tb.Logf("the service is not ready: %v", err)
		}
	}()
	testkit.WaitFor(tb, n.Ctx, "the service to say "+says[0], func() bool {
		err = s.Ready()
		return err != nil && strings.Contains(err.Error(), says[0])
	})
	saysOnly(tb, err, says, not)
	s.Cancel()
	_ = s.Wait() // it may have ended with this error
}

func saysOnly(tb testing.TB, err error, says, not []string) {
	tb.Helper()
	if err == nil {
		tb.Fatal("no error")
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			tb.Errorf("%q does not say %q", err, text)
		}
	}
	for _, text := range not {
		if strings.Contains(err.Error(), text) {
			tb.Errorf("%q says %q", err, text)
		}
	}
}

// The error for a state of another realm or installation names the state and not the secret, if the secret is that of
// the log. If it is that of the state, the error names the log.
func TestStateOfAnother(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server, dir := t.TempDir(), t.TempDir()
	n := installationOn(t, natsd.Config{Dir: server, Roles: bus.Roles(realm, "other")})
	two := func(c *graph.Config) { c.Realms = []string{realm, "other"} }
	both := n.serve(dir, two)
	testkit.WaitFor(t, ctx, "the service to write both realms", func() bool {
		return strings.Contains(both.Status(), "realm other: writer") && strings.Contains(both.Status(), "realm "+realm+": writer")
	})
	both.Stop()
	up := func(c *graph.Config) { c.DataDir = "up" }
	otherSecret := func(c *graph.Config) { c.Secrets = secret.Secrets{}.Draw() }
	elsewhere := t.TempDir()
	newInstallation(t).serve(elsewhere, otherSecret).writing().Stop()

	renamed := t.TempDir()
	must.Succeed(t, os.CopyFS(filepath.Join(renamed, realm), os.DirFS(filepath.Join(dir, "other"))))
	for what, states := range map[string]string{"another realm": renamed, "another installation": elsewhere} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			is := "the state in " + filepath.Join(states, realm) + " is of another realm or installation"
			refused(t, n, states, nil, []string{is, "--data"}, []string{"start it with the secret", "coppice rebuild"})
			refused(t, n, states, up, []string{is, "Move the directory " + states + " away", "replays the log"}, []string{"--data", "start it with the secret"})
		})
	}
	// Only the marks of the log's end, as after `coppice rebuild --state` with a state of another.
	for what, from := range map[string]string{"mark of another realm": tail.File(dir, "other"), "mark of another installation": tail.File(elsewhere, realm)} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			states := t.TempDir()
			file := tail.File(states, realm)
			b, err := os.ReadFile(from)
			must.Succeed(t, errors.Join(err, os.WriteFile(file, b, 0o600)))
			says, not := []string{"the file " + file, "is of another realm or installation", "move the file away"}, []string{"--accept-loss", "has lost"}
			started := append([]string{"realm " + realm + ": failed"}, says...)
			refused(t, n, states, nil, started, not)
			refused(t, newInstallation(t), states, nil, started, not) // there is no log
			_, err = replay.Rebuild(ctx, n.Conn(bus.RoleGraph), realm, states, testkit.Secrets())
			saysOnly(t, err, says, not)
			must.Succeed(t, os.Remove(file))
			if _, err = replay.Rebuild(ctx, n.Conn(bus.RoleGraph), realm, states, testkit.Secrets()); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("log", func(t *testing.T) {
		t.Parallel()
		other := newInstallation(t)
		other.serve(t.TempDir(), otherSecret).writing().Stop()
		is := "the log " + bus.LogStream(realm) + " is of another installation"
		refused(t, other, dir, nil, []string{is, "--server", "--data", "--secret"}, []string{"coppice rebuild", "--accept-loss"})
		refused(t, other, dir, up, []string{is, filepath.Join("up", "coppice.secret"), "move the directory " + dir + " away"}, []string{"--server", "--data", "--secret", "--accept-loss"})
	})
}

// An error advises to rebuild the state only if the rebuild is not refused. The error of a rebuild never does.
func TestRebuildAdvice(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server, dir := t.TempDir(), t.TempDir()
	run(t, server, dir, creating(t, "one"))
	older := copyOf(t, server)
	run(t, server, dir, creating(t, "two"))
	const advice = "coppice rebuild"
	rebuild := func(n *installation) error {
		_, err := replay.Rebuild(ctx, n.Conn(bus.RoleGraph), realm, dir, testkit.Secrets())
		return err
	}

	short := installationIn(t, older)
	refused(t, short, dir, nil, []string{"the log went backwards", "--accept-loss"}, []string{advice})
	saysOnly(t, rebuild(short), []string{"the log has lost its newest commits", "--accept-loss"}, []string{advice})

	fresh := newInstallation(t)
	fresh.serve(t.TempDir(), nil).writing().Stop()
	refused(t, fresh, dir, nil, []string{"was created again", "its commits are of another realm"}, []string{advice})
	saysOnly(t, rebuild(fresh), []string{"its commits are of another realm", "--accept-loss"}, []string{advice})

	// The stream was deleted, and restored from a complete backup.
	from := installationIn(t, server)
	restored := newInstallation(t)
	copyLog(t, from, restored, checkpoint(t, dir).GetPosition())
	sealLog(t, restored)
	refused(t, restored, dir, nil, []string{"was created again", advice + " --state " + dir + " --realm " + realm}, nil)
	must.Succeed(t, rebuild(restored))
	s := restored.serve(dir, nil).writing()
	restored.has("one", "two")
	s.Stop()
}

// copyLog copies the messages of a log to another server, and returns the new stream, from which messages can be
// deleted until its configuration is complete.
func copyLog(tb testing.TB, from, to *installation, last uint64) jetstream.Stream {
	tb.Helper()
	ctx := testkit.Context(tb)
	js := to.JS()
	config := bus.LogConfig(realm, 1)
	config.DenyDelete = false
	stream, err := js.CreateStream(ctx, config)
	must.Succeed(tb, err)
	a := newAttacker(tb, from)
	for at := uint64(1); at <= last; at++ {
		if _, err := js.Publish(ctx, bus.LogSubject(realm), a.message(ctx, at)); err != nil {
			tb.Fatal(err)
		}
	}
	return stream
}

// sealLog completes the configuration of a stream of copyLog.
func sealLog(tb testing.TB, n *installation) {
	tb.Helper()
	if _, err := n.JS().UpdateStream(testkit.Context(tb), bus.LogConfig(realm, 1)); err != nil {
		tb.Fatal(err)
	}
}

// The error for a log that lacks commits does not offer to go on with a state that does not have them either.
// TestPurgedLog has a state that has them.
func TestLostWithoutState(t *testing.T) {
	t.Parallel()
	server, dir := t.TempDir(), t.TempDir()
	run(t, server, dir, creating(t, "one", "two", "three"))
	from, n := installationIn(t, server), newInstallation(t)
	stream := copyLog(t, from, n, checkpoint(t, dir).GetPosition())
	must.Succeed(t, stream.DeleteMsg(testkit.Context(t), 2))
	sealLog(t, n)
	refused(t, n, t.TempDir(), nil, []string{"does not have these commits either", "restore the stream from a backup"}, []string{"To go on with", "--accept-loss"})
}
