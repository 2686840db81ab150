package graph_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph"
)

// disk is a file system on which there is no room any more after a number of
// writes to files whose name has a part.
type disk struct {
	part   string
	room   int64
	writes atomic.Int64
}

// MaybeError implements errorfs.Injector.
func (d *disk) MaybeError(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpCreate, errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo, errorfs.OpFilePreallocate:
	default:
		return nil
	}
	if !strings.Contains(filepath.Base(op.Path), d.part) || d.writes.Add(1) <= d.room {
		return nil
	}
	return &os.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
}

func (d *disk) String() string { return fmt.Sprintf("%d writes to *%s*", d.room, d.part) }

// The process of a graph service that these tests start. Its exit status shows a crash, and
// its exit releases its locks.
const (
	childURL      = "COPPICE_TEST_URL"
	childPassword = "COPPICE_TEST_PASSWORD_" // and the role
	childDir      = "COPPICE_TEST_DIR"
	childPart     = "COPPICE_TEST_PART"
	childRoom     = "COPPICE_TEST_ROOM"
)

func TestMain(m *testing.M) {
	if os.Getenv(childURL) != "" {
		os.Exit(child())
	}
	testkit.ManyAtOnce()
	testkit.Main(m)
}

func child() int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	room, err := strconv.ParseInt(os.Getenv(childRoom), 10, 64)
	if err != nil {
		return fail(err)
	}
	var ncs [2]*nats.Conn
	for i, role := range []string{bus.RoleGraph, bus.RoleAnswers} {
		if ncs[i], err = nats.Connect(os.Getenv(childURL), nats.UserInfo(role, os.Getenv(childPassword+role)), nats.CustomInboxPrefix(bus.InboxPrefix(role)),
			nats.MaxReconnects(-1), nats.ReconnectBufSize(-1), nats.Timeout(testkit.Timeout)); err != nil {
			return fail(err)
		}
		defer ncs[i].Close()
	}
	c := graph.Config{Secrets: testkit.Secrets(), Conn: ncs[0], Answers: ncs[1], Dir: os.Getenv(childDir), LeaseTTL: lasting}
	c.State.FS = errorfs.Wrap(vfs.Default, &disk{part: os.Getenv(childPart), room: room})
	c.State.MemTableSize = 64 << 10
	s, err := graph.New(c)
	if err != nil {
		return fail(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := s.Run(ctx); err != nil {
		return fail(err)
	}
	return 0
}

// process is a process of a graph service.
type process struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	ended  chan struct{}
}

func startProcess(tb testing.TB, n *installation, dir string, d *disk) *process {
	tb.Helper()
	exe, err := os.Executable()
	must.Succeed(tb, err)
	p := &process{cmd: exec.Command(exe), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childURL+"="+n.Server.URL(), childPassword+bus.RoleGraph+"="+n.Server.Password(bus.RoleGraph), childPassword+bus.RoleAnswers+"="+n.Server.Password(bus.RoleAnswers),
		childDir+"="+dir,
		childPart+"="+d.part, childRoom+"="+strconv.FormatInt(d.room, 10))
	p.cmd.Stderr = &p.stderr
	must.Succeed(tb, p.cmd.Start())
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait()
	}()
	tb.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	return p
}

// wait waits until the process has ended.
func (p *process) wait(ctx context.Context, tb testing.TB) (code int, stderr string) {
	tb.Helper()
	testkit.Receive(tb, ctx, "the end of the process", p.ended)
	return p.cmd.ProcessState.ExitCode(), p.stderr.String()
}

// saysTheRemedy checks that the output of a service that ended on a full disk says what
// to do.
func saysTheRemedy(tb testing.TB, code int, stderr string) {
	tb.Helper()
	if code != 1 {
		tb.Errorf("exit code %d", code)
	}
	for _, want := range []string{"realm " + realm, "no space left on device", "free disk space", "the log is unharmed"} {
		if !strings.Contains(stderr, want) {
			tb.Errorf("the service does not say %q", want)
		}
	}
	if strings.Contains(stderr, "goroutine ") || tb.Failed() {
		tb.Errorf("the service said:\n%s", stderr)
	}
}

// Whichever write finds the disk full, the service ends with an error that says what to
// do, loses nothing, and continues after a restart with free space.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	for _, d := range []*disk{
		{part: "", room: 0}, // full from the start
		{part: "", room: 30},
		{part: "", room: 60},
		{part: ".sst", room: 2},
		{part: ".sst", room: 25},
		{part: "MANIFEST", room: 4},
		{part: "MANIFEST", room: 9},
		{part: "marker", room: 3},
	} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			n, dir := newInstallation(t), t.TempDir()
			p := startProcess(t, n, dir, d)
			names := load(n.Ctx, t, n, p)
			code, stderr := p.wait(n.Ctx, t)
			saysTheRemedy(t, code, stderr)

			s := n.serve(dir, nil).writing()
			hasAll(n.Ctx, t, n.application(), names)
			verified(t, n)
			s.Stop()
		})
	}
}

// load creates objects until the process has ended, and returns those that
// were acknowledged, sorted.
func load(ctx context.Context, tb testing.TB, n *installation, p *process) (names []string) {
	tb.Helper()
	loading, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		<-p.ended
		stop()
	}()
	objects := n.application().Resource(configMaps, "a")
	for i := 0; loading.Err() == nil; i++ {
		o := configMap(fmt.Sprintf("n-%06d", i))
		o.Spec = []byte(`"` + strings.Repeat("x", 2000) + `"`)
		_, err := objects.Create(loading, o)
		if err == nil {
			names = append(names, o.GetMetadata().GetName())
		}
	}
	return names
}

// hasAll checks that all these objects are there, and at most one more: that
// whose creation was not answered.
func hasAll(ctx context.Context, tb testing.TB, c *client.Client, names []string) {
	tb.Helper()
	got := map[string]bool{}
	for o, err := range c.Resource(configMaps, "a").List(ctx) {
		must.Succeed(tb, err)
		got[o.GetMetadata().GetName()] = true
	}
	for _, n := range names {
		if !got[n] {
			tb.Errorf("%s was acknowledged, and is not there", n)
		}
	}
	if len(got) > len(names)+1 {
		tb.Errorf("%d objects are there, %d were acknowledged", len(got), len(names))
	}
}

// verified checks that the state is the fold of the log.
func verified(tb testing.TB, n *installation) {
	tb.Helper()
	if v := n.verify(); v.GetDifference() != "" || v.GetSequence() == 0 {
		tb.Errorf("the state is not the fold of the log: %v", v)
	}
}

// A replica whose disk is full ends as well, and leaves the writer alone.
func TestDiskFullOfAReplica(t *testing.T) {
	t.Parallel()
	n, dir := newInstallation(t), t.TempDir()
	s := n.serve(t.TempDir(), nil).writing()
	p := startProcess(t, n, dir, &disk{part: ".sst", room: 4})
	names := load(n.Ctx, t, n, p)
	code, stderr := p.wait(n.Ctx, t)
	saysTheRemedy(t, code, stderr)
	if !s.Writing() {
		t.Error("the writer is not the writer any more")
	}
	s.Stop()
	n.serve(dir, nil).writing()
	hasAll(n.Ctx, t, n.application(), names)
}

// TestStopOnFullDisk shows that a service that is asked to stop while the disk is full
// stops.
func TestStopOnFullDisk(t *testing.T) {
	t.Parallel()
	n, dir := newInstallation(t), t.TempDir()
	p := startProcess(t, n, dir, &disk{part: ".sst", room: 0})
	c := n.application()
	create(n.Ctx, t, c, "one", "two")
	must.Succeed(t, p.cmd.Process.Signal(syscall.SIGTERM))
	p.wait(n.Ctx, t)
	if strings.Contains(p.stderr.String(), "goroutine ") {
		t.Errorf("the service said:\n%s", p.stderr.String())
	}
	n.serve(dir, nil).writing()
	has(n.Ctx, t, c, "one", "two")
}

// If the disk has too little room to verify a snapshot, none is made, and nothing is written that the state needs the room
// for; a warning says what is needed. Segments go on. With more room a snapshot is verified.
func TestTooLittleRoomToVerify(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	var free atomic.Uint64
	free.Store(1 << 20)
	limits := soon
	limits.Interval = time.Millisecond // a snapshot is tried again after 600 times as long
	s := a.serve(a.dir, func(c *graph.Config) {
		c.Archive, c.ArchiveLimits = a.store, limits
		c.HasFree(free.Load)
	}).writing()
	a.create("first")
	id, revision := a.at()
	a.warned(lifecycle.WarnUnarchived, "has 1.0 MiB free, and 25")
	a.create("second")
	a.segmented(id)
	if found := a.entries(archive.Verified); len(found) > 0 {
		t.Errorf("snapshots were verified: %v", found)
	}
	free.Store(1 << 40)
	a.verified(id, revision-1, "more")
	s.Stop()
}

// A realm that fails and is tried again in the same process reads messages again that are no commits. They are not
// counted, logged and warned of again.
func TestSkippedMessagesAreCountedOnce(t *testing.T) {
	t.Parallel()
	n := newInstallation(t)
	n.serve(t.TempDir(), nil).writing()
	var full atomic.Bool
	registry := prometheus.NewRegistry()
	follower := n.serve(t.TempDir(), func(c *graph.Config) {
		c.Registry, c.OutlastFullDisk, c.State.MemTableSize = registry, true, 64<<10
		c.State.FS = errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if full.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.HasSuffix(op.Path, ".sst") {
				return &os.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
			}
			return nil
		}))
	})
	c := n.application()
	create(n.Ctx, t, c, "first")
	a := newAttacker(t, n)
	a.attack(n.Ctx)
	skipped := func() int { return int(metric(t, registry, "coppice_graph_log_skipped_total")) }
	n.WaitFor("the messages to be skipped", func() bool { return skipped() == a.sent })

	full.Store(true)
	i := 0
	n.WaitFor("the state of the follower to fail", func() bool {
		o := configMap(fmt.Sprint("large-", i))
		o.Spec = fmt.Appendf(nil, `{"data":%q}`, strings.Repeat(fmt.Sprint(i), 8<<10))
		if _, err := c.Resource(configMaps, "a").Create(n.Ctx, o); err != nil {
			t.Fatal(err)
		}
		i++
		err := follower.Ready()
		return err != nil && strings.Contains(err.Error(), syscall.ENOSPC.Error())
	})
	full.Store(false)
	n.WaitFor("the follower to have caught up", func() bool { return follower.Ready() == nil })
	if got := skipped(); got != a.sent {
		t.Errorf("%d messages were skipped, and %d are counted", a.sent, got)
	}
}
