package benchmarks

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/bench"
	"github.com/coppice-gc/coppice/internal/poll"
)

// aside is a process of its own that runs all services.
type aside struct {
	c     bench.Config
	port  int
	child *bench.Child
	nc    *nats.Conn
	d     *bench.Deployment // the process, as a client reaches it
	place bench.Place       // of the objects
}

// startAside starts all services in a process of their own.
func startAside(ctx context.Context, c bench.Config) (*aside, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	a := &aside{c: c, port: port}
	_, err = a.answered(ctx)
	return a, err
}

// freePort returns a port of the loopback interface that no process listens on.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

// answered starts the process, and returns the time until it has answered a
// command.
func (a *aside) answered(ctx context.Context) (time.Duration, error) {
	if a.nc != nil {
		a.nc.Close()
	}
	start := time.Now()
	var err error
	a.child, err = a.c.StartChild([]string{"up", "--data", filepath.Join(a.c.Dir, "aside"), "--port", strconv.Itoa(a.port), "--http", ""})
	if err != nil {
		return 0, err
	}
	url := fmt.Sprintf("nats://127.0.0.1:%d", a.port)
	err = poll.Until(ctx, func() (bool, error) {
		if a.nc, err = nats.Connect(url); err != nil {
			return false, a.child.Alive()
		}
		return true, nil
	})
	if err != nil {
		return 0, err
	}
	a.d = bench.Running(client.New(a.nc, client.WithActor(bench.Actor)), a.c)
	_, err = a.d.NewPlace(ctx)
	return time.Since(start), err
}

// check checks that a sample of the objects exists. A list of all objects would
// take longer than the measurement.
func (a *aside) check(ctx context.Context) error {
	a.place.Objects = a.d.Client.Resource(bench.Pods, a.place.Namespace)
	return a.d.CheckSample(ctx, a.place)
}

// measured adds what the process has used to r.
func (a *aside) measured(r *bench.Result) (err error) {
	pids := []int{a.child.PID()}
	r.Sync, r.Processes, r.Version = true, 2, a.c.Version
	if r.CPUSeconds, err = bench.CPUSeconds(pids); err != nil {
		return err
	}
	r.PeakRSSBytes, err = bench.PeakRSS(pids)
	return err
}

// end ends the process.
func (a *aside) end() error {
	if a.nc != nil {
		a.nc.Close()
	}
	if a.child != nil && a.child.Alive() == nil {
		return a.child.Kill()
	}
	return nil
}
