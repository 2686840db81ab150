// Package testkit has what tests of several packages share: an embedded NATS server with a
// user for each role, connections, and functions that wait for a condition. A test of one service
// runs it with Run in a Realm, and plays the other services. Package stack runs all of them.
//
// Tests wait for conditions, never for durations. A condition has a name, which the failure
// of a test reports.
package testkit

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/secret"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// Timeout is the limit of one wait: a test fails after it. It is long because the machine may be
// slow; a test that succeeds does not wait for it. No limit covers more than one wait: a test may
// queue for a core between two of them, for longer than any wait takes.
const Timeout = 3 * time.Minute * raceFactor

// Context returns a context that ends with the test, and not before. Its deadline moves: it is
// always Timeout from now, so that a call which computes its limit from the deadline has Timeout from
// when it begins. A call that only waits for the end of the context, as those of JetStream do, is
// bounded by -timeout of go test, and so is one whose context was derived with a timeout longer than
// Timeout. What waits for a condition or a channel uses WaitFor or Receive, and a condition that
// asks a server uses Attempt.
func Context(tb testing.TB) context.Context {
	tb.Helper()
	return endsWithTest{tb.Context()}
}

type endsWithTest struct{ context.Context }

func (endsWithTest) Deadline() (time.Time, bool) { return time.Now().Add(Timeout), true }

// Secrets are the secrets of an installation, the same for all tests.
func Secrets() secret.Secrets {
	s, err := secret.Parse([]byte("1 " + strings.Repeat("5a", secret.Size)))
	if err != nil {
		panic(err)
	}
	return s
}

// WaitFor waits until a condition holds, and fails the test after Timeout, or if ctx ends before. It
// looks often at first. Later each pause is a twentieth of the time waited, since a condition may
// ask a server, up to 50 ms.
func WaitFor(tb testing.TB, ctx context.Context, what string, holds func() bool) {
	tb.Helper()
	limit := time.NewTimer(Timeout)
	defer limit.Stop()
	begun := time.Now()
	for !holds() {
		pause := min(max(time.Since(begun)/20, 2*time.Millisecond), 50*time.Millisecond)
		select {
		case <-limit.C:
			inVain(tb, what)
		case <-ctx.Done():
			tb.Fatalf("waited in vain for %s: %v", what, ctx.Err())
		case <-time.After(pause):
		}
	}
}

// Attempt returns a context for one attempt of a condition that asks a server: a reply may be lost,
// and then the condition is tried again.
func Attempt(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 10*time.Second*raceFactor)
}

// Receive receives from a channel, and fails the test after Timeout, or if ctx ends before.
func Receive[T any](tb testing.TB, ctx context.Context, what string, from <-chan T) T {
	tb.Helper()
	limit := time.NewTimer(Timeout)
	defer limit.Stop()
	select {
	case v := <-from:
		return v
	case <-limit.C:
		inVain(tb, what)
	case <-ctx.Done():
		tb.Fatalf("waited in vain for %s: %v", what, ctx.Err())
	}
	panic("unreachable")
}

// inVain fails a test whose wait has reached its limit, and logs where the goroutines of the process are that
// run code of Coppice or wait for a lock: a hang that cannot be repeated is explained by them alone.
func inVain(tb testing.TB, what string) {
	tb.Helper()
	var all, ours strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&all, 1) // each place once, with the number of goroutines
	for place := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(place, "coppice-gc/coppice/") || strings.Contains(place, "Lock+") {
			ours.WriteString(place + "\n\n")
		}
	}
	tb.Logf("the goroutines of this process:\n%s", ours.String())
	tb.Fatalf("waited in vain for %s: %v", what, Timeout)
}

// Await waits until s is ready. If it is not ready after Timeout, the error matches
// context.DeadlineExceeded.
func Await(ctx context.Context, s interface {
	Await(ctx context.Context) error
}) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	err := s.Await(ctx)
	if err != nil && ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		return fmt.Errorf("%w; %w", err, ctx.Err())
	}
	return err
}

// NATS starts an embedded server, in a directory of its own, with the users of
// all roles of the realm. It listens on a free port of the loopback interface.
func NATS(tb testing.TB) *natsd.Server {
	tb.Helper()
	return StartNATS(tb, natsd.Config{Dir: tb.TempDir()})
}

// StartNATS is NATS with a configuration. It sets Logf and, where they are not set, a free port
// and the roles. Without c.Dir the server has no JetStream.
func StartNATS(tb testing.TB, c natsd.Config) *natsd.Server {
	tb.Helper()
	if c.Port == 0 {
		c.Port = -1
	}
	if c.Roles == nil {
		c.Roles = append(bus.Roles(bus.DefaultRealm), bus.LocalRole(bus.DefaultRealm))
	}
	c.Logf = tb.Logf
	s, err := natsd.Start(c)
	must.Succeed(tb, err)
	stop := func() {
		if err := s.Shutdown(); err != nil {
			tb.Error(err)
		}
	}
	tb.Cleanup(stop)
	return s
}

// Conn connects with a role, within this process.
func Conn(tb testing.TB, s *natsd.Server, role string) *nats.Conn {
	tb.Helper()
	return connect(tb, s.URL(), append(s.Options(role), nats.Timeout(Timeout))...)
}

// Dial connects with a role over TCP, at the server's URL or that of a proxy.
func Dial(tb testing.TB, s *natsd.Server, url, role string) *nats.Conn {
	tb.Helper()
	// A proxy may discard what is sent, so that it takes this long until a reconnection fails.
	return connect(tb, url, nats.UserInfo(role, s.Password(role)), nats.CustomInboxPrefix(bus.InboxPrefix(role)), nats.Timeout(5*time.Second))
}

// connect connects as a service does: it reconnects for ever, and keeps
// nothing to send later.
func connect(tb testing.TB, url string, opts ...nats.Option) *nats.Conn {
	tb.Helper()
	opts = append(opts, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0), nats.ReconnectBufSize(-1),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	for begun := time.Now(); ; {
		nc, err := nats.Connect(url, opts...)
		if err == nil {
			tb.Cleanup(nc.Close)
			return nc
		}
		var e net.Error
		if late := errors.Is(err, nats.ErrTimeout) || errors.As(err, &e) && e.Timeout(); !late || time.Since(begun) > Timeout {
			tb.Fatal(err)
		}
	}
}

// JetStream connects with a role, and returns its JetStream.
func JetStream(tb testing.TB, s *natsd.Server, role string) jetstream.JetStream {
	tb.Helper()
	js, err := jetstream.New(Conn(tb, s, role))
	must.Succeed(tb, err)
	return js
}

// AvoidDefaultPorts has services and consoles serve HTTP on free ports: on the default ones, tests would disturb each
// other, and what runs on the machine.
func AvoidDefaultPorts() {
	for _, name := range []string{"COPPICE_HTTP", "COPPICE_CONSOLE", "COPPICE_LISTEN"} {
		_ = os.Setenv(name, "127.0.0.1:0")
	}
}

// DefaultPort matches addresses of default ports, and what services print if another program has theirs.
var DefaultPort = regexp.MustCompile(`:94(4[0-4]|50)\b`)

// Main runs the tests of a package, and fails if they leave goroutines behind. cleanup is what
// remains to be done when they have ended.
func Main(m *testing.M, cleanup ...func()) {
	AvoidDefaultPorts()
	code := m.Run()
	for _, clean := range cleanup {
		clean()
	}
	if code == 0 {
		// goleak itself waits for less than half a second; a busy machine needs longer.
		var err error
		for begun := time.Now(); time.Since(begun) < 20*time.Second; {
			if err = goleak.Find(ignored...); err == nil {
				break
			}
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "goleak: errors on successful test run: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}

// SlowLine matches what the services and the NATS server log on a busy machine, or one whose disk is almost full: the
// writer may lose its lease, for example.
var SlowLine = regexp.MustCompile(`not the writer any more|cannot (acquire|release) the lease|cannot delete the key of this process|cannot archive the log|Readloop processing time|the disk of .* full`)

// FreePorts returns up to nine ports of the loopback interface, and reserves them until the test
// ends: other runs of tests, also in other processes, get other ports while nothing listens on
// these. They are below the ephemeral ports, so that the system gives them to no other process.
func FreePorts(tb testing.TB, n int) (list []int) {
	tb.Helper()
	const first, count, size = 30000, 270, 10
	for range 10 * count {
		base := first + size*rand.IntN(count)
		reserved, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(base)))
		if err != nil {
			continue
		}
		for i := range n {
			list = append(list, base+1+i)
		}
		tb.Cleanup(func() { _ = reserved.Close() })
		return list
	}
	tb.Fatal("no free ports")
	return nil
}

// ManyAtOnce is for TestMain of a package whose tests mostly wait for processes and for
// leases: at least eight of its parallel tests run at once, also on two cores, unless the
// user has set -parallel. With the race detector, which keeps the cores busy, it is three.
func ManyAtOnce() {
	least := 8
	if Raced {
		least = 3
	}
	if err := flag.Set("test.parallel", strconv.Itoa(max(least, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err) // package testing has defined the flag
	}
}

// ignored are goroutines of others that end on their own, or never.
var ignored = []goleak.Option{
	// Pebble 2.1.7 panics when it is closed after a file of values could not be read, and
	// leaves this goroutine behind. A database that is not closed has others too.
	goleak.IgnoreTopFunction("github.com/cockroachdb/pebble/v2/internal/genericcache.(*shard[...]).releaseLoop"),
	// nats-server 2.15.2 leaves these behind if it is stopped while it creates a stream.
	goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushStreamStateLoop"),
	goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"),
}
