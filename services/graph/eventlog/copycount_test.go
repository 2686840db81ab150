package eventlog_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// What each server of a cluster has is counted, also when one has lost a file of its copy, while the
// information about the stream, which its leader gives, shows nothing. Before, the log is on one server, as a restore may
// leave it, until it is raised.
func TestCopyCounter(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	const servers, messages, damaged = 3, 40, "n2"
	c := natsd.Config{Dir: t.TempDir(), Roles: bus.Roles(realm), Passwords: map[string]string{bus.RoleGraph: "secret"}, Logf: t.Logf}
	// open starts the servers, and opens the log as soon as all of them have it.
	open := func() (js jetstream.JetStream, log *eventlog.Log, stop func()) {
		t.Helper()
		list, err := natsd.StartCluster(c, servers)
		must.Succeed(t, err)
		nc := testkit.Conn(t, list[0], bus.RoleGraph)
		js, err = jetstream.New(nc)
		must.Succeed(t, err)
		config := bus.LogConfig(realm, 1)
		config.MaxBytes = 120_000 // for files of 32 kB, of which there are several
		soon(ctx, t, "the log on all servers", func(ctx context.Context) bool {
			stream, err := js.Stream(ctx, config.Name)
			if errors.Is(err, jetstream.ErrStreamNotFound) {
				stream, err = js.CreateStream(ctx, config)
			}
			if err == nil {
				log, err = eventlog.On(js, stream, realm, keys)
			}
			if err == nil {
				_, err = log.Raise(ctx, servers)
			}
			if err != nil {
				return false
			}
			e, err := log.Extent(ctx)
			return err == nil && len(e.Current) == servers
		})
		return js, log, func() {
			nc.Close()
			if err := natsd.ShutdownAll(list); err != nil {
				t.Error(err)
			}
		}
	}
	// count waits until each server was counted, and has as many messages as wanted.
	count := func(log *eventlog.Log, want func(server string, first, messages uint64) bool) {
		t.Helper()
		seen := map[string]bool{}
		soon(ctx, t, "the numbers of messages of all servers", func(ctx context.Context) bool {
			counter, err := log.OpenCounter(ctx)
			if err != nil {
				return false
			}
			defer counter.Close(ctx)
			if first, messages, err := counter.Count(ctx); err == nil && want(counter.Server, first, messages) {
				seen[counter.Server] = true
			}
			return len(seen) == servers
		})
	}
	js, log, stop := open()
	if n, err := bus.InstalledReplicas(ctx, js); err != nil || n != 0 {
		t.Errorf("without a list of realms the installation has %d replicas, %v", n, err)
	}
	soon(ctx, t, "the list of realms", func(ctx context.Context) bool {
		_, err := bus.EnsureBucket(ctx, js, bus.RealmBucket, servers)
		return err == nil
	})
	if n, err := bus.InstalledReplicas(ctx, js); err != nil || n != servers {
		t.Errorf("the installation has %d replicas, %v", n, err)
	}
	for i := range messages {
		soon(ctx, t, "a message to be stored", func(ctx context.Context) bool {
			_, err := js.Publish(ctx, bus.LogSubject(realm), make([]byte, 2000), jetstream.WithMsgID(strconv.Itoa(i)))
			return err == nil
		})
	}
	count(log, func(_ string, first, n uint64) bool { return first == 1 && n == messages })
	stop()
	dir := filepath.Join(c.Dir, damaged, "jetstream", "*", "streams", bus.LogStream(realm), "msgs")
	for _, name := range []string{"2.blk", "index.db"} {
		files, err := filepath.Glob(filepath.Join(dir, name))
		if err != nil || len(files) != 1 {
			t.Fatalf("%s: %d files, %v", name, len(files), err)
		}
		must.Succeed(t, os.Remove(files[0]))
	}
	_, log, stop = open()
	defer stop()
	count(log, func(server string, first, n uint64) bool {
		return first == 1 && (server != damaged && n == messages || server == damaged && n < messages)
	})
}

// soon is testkit.WaitFor for requests to a cluster: one that no server answers is sent again.
func soon(ctx context.Context, t *testing.T, what string, holds func(context.Context) bool) {
	t.Helper()
	testkit.WaitFor(t, ctx, what, func() bool {
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		return holds(short)
	})
}
