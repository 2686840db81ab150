package rpc_test

import (
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"weak"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// stall is a dialer. From the call of begin until release is closed, what its connection
// writes blocks, as it does when a peer is gone and the socket's buffer is full.
type stall struct {
	begun            atomic.Bool
	blocked, release chan struct{}
}

func (s *stall) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	return &stalled{conn, s}, err
}

type stalled struct {
	net.Conn
	*stall
}

func (s *stalled) Write(p []byte) (int, error) {
	if s.begun.Load() {
		select {
		case s.blocked <- struct{}{}:
		default:
		}
		<-s.release
	}
	return s.Conn.Write(p)
}

// A connection that cannot write keeps the mutex of its *nats.Conn. Requests on other
// connections of the process do not wait for it, whether or not it has sent a request.
func TestOneConnectionIsBlocked(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"after a request": true, "at its first request": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			testkit.Answer(t, b.graph, subject, &coppicev1.ListRequest{}, func(*coppicev1.ListRequest) (*coppicev1.ListReply, *lifecycle.Error) {
				return &coppicev1.ListReply{}, nil
			})
			link := &stall{blocked: make(chan struct{}, 1), release: make(chan struct{})}
			nc, err := nats.Connect(b.Server.URL(), nats.UserInfo(bus.RoleOperator, b.Server.Password(bus.RoleOperator)),
				nats.CustomInboxPrefix(bus.InboxPrefix(bus.RoleOperator)), nats.Timeout(testkit.Timeout), nats.SetCustomDialer(link))
			must.Succeed(t, err)
			t.Cleanup(nc.Close)
			if known {
				must.Succeed(t, rpc.Call(b.Ctx, nc, subject, nil, &coppicev1.ListRequest{}, &coppicev1.ListReply{}))
			}
			link.begun.Store(true)
			var released atomic.Bool
			var watches sync.WaitGroup
			defer func() { released.Store(true); close(link.release); watches.Wait() }()
			if err := nc.Publish(subject, nil); err != nil {
				t.Error(err)
			}
			testkit.Receive(t, b.Ctx, "the write that blocks", link.blocked)
			for range 2 {
				watches.Go(func() {
					_, stop := rpc.Watched(b.Ctx, nc, subject)
					defer stop()
					if !known && !released.Load() {
						t.Error("a request is sent before violations are listened for")
					}
				})
			}
			answered := make(chan error, 100)
			go func() {
				for range 100 { // those above may need time to block
					_, err := b.call(b.Ctx, &coppicev1.ListRequest{})
					answered <- err
				}
			}()
			for range 100 {
				must.Succeed(t, testkit.Receive(t, b.Ctx, "the reply on another connection", answered))
			}
		})
	}
}

// The waits of a connection are kept while the connection is in use, and not longer.
func TestConnectionsAreForgotten(t *testing.T) {
	t.Parallel()
	r := testkit.NewRealm(t)
	request := func() weak.Pointer[nats.Conn] {
		nc, err := nats.Connect("", append(r.Server.Options(bus.RoleOperator), nats.Timeout(testkit.Timeout))...)
		must.Succeed(t, err)
		defer nc.Close()
		nc.SetErrorHandler(func(*nats.Conn, *nats.Subscription, error) { _ = nc.Stats() })
		err = rpc.Call(r.Ctx, nc, subject, nil, &coppicev1.ListRequest{}, &coppicev1.ListReply{})
		is(t, err, api.ErrServiceUnavailable, true, "no graph service answers")
		runtime.GC()
		if !rpc.Known(weak.Make(nc)) {
			t.Error("the waits of an open connection are not kept")
		}
		return weak.Make(nc)
	}
	closed := request()
	r.WaitFor("the end of the waits of a closed connection", func() bool {
		runtime.GC()
		return !rpc.Known(closed)
	})
}
