package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/dial"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/poll"
	"github.com/coppice-gc/coppice/internal/secret"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/replay"
)

// errElsewhere is returned by benchmarks that need more than a client is permitted.
var errElsewhere = errors.New("this benchmark starts what it measures: run it without --server and $NATS_URL")

// Replay measures how long a state takes to be built from its log.
type Replay struct {
	Events int
	// Live writes a log of objects that stay, without removals.
	Live bool
}

// Run writes a log, half of it creations and half the removals of a cascade (only
// creations if Live is set), stops d, and measures a replay into an empty state in
// d's directory.
func (b Replay) Run(ctx context.Context, d *Deployment) (*Result, error) {
	if !d.local() {
		return nil, errElsewhere
	}
	if err := b.makeLog(ctx, d); err != nil {
		return nil, err
	}
	if err := d.End(); err != nil {
		return nil, err
	}
	server, err := natsd.Start(natsd.Config{Dir: filepath.Join(d.c.Dir, "nats"), Roles: bus.Roles(bus.DefaultRealm)})
	if err != nil {
		return nil, err
	}
	r, err := b.replay(ctx, d, server)
	return r, errors.Join(err, server.Shutdown())
}

func (b Replay) makeLog(ctx context.Context, d *Deployment) (err error) {
	if b.Live {
		_, err = d.Fill(ctx, b.Events)
	} else {
		_, err = Cascade{Objects: b.Events / 2, Shape: "wide", Policy: "Background"}.Run(ctx, d)
	}
	return err
}

func (b Replay) replay(ctx context.Context, d *Deployment, server *natsd.Server) (*Result, error) {
	nc, err := dial.Service(ctx, server.URL(), "coppice-bench", slog.New(slog.DiscardHandler), server.Options(bus.RoleGraph)...)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	d.Client = client.New(nc)
	secrets, err := secret.Load(filepath.Join(d.c.Dir, secret.FileName))
	if err != nil {
		return nil, err
	}
	m, err := d.Measure(ctx)
	if err != nil {
		return nil, err
	}
	replayed, err := replay.Rebuild(ctx, nc, bus.DefaultRealm, filepath.Join(d.c.Dir, "replayed"), secrets)
	if err != nil {
		return nil, err
	}
	r := &Result{Name: "replay", Objects: int(replayed.Events)}
	if err := m.Stop(ctx, r); err != nil {
		return nil, err
	}
	r.Detail("commits_replayed", float64(replayed.Commits))
	r.Detail("bytes_replayed", float64(m.Before.Bytes))
	return r, errors.Join(b.pass(ctx, nc, d, r, "read", func([]byte) error { return nil }), b.pass(ctx, nc, d, r, "decode", func(commit []byte) error {
		c, err := eventlog.Decode(commit)
		if err != nil {
			return err
		}
		return c.Unpack(nil)
	}))
}

// pass reads the log once more without folding it, and adds the time and the CPU
// time to r: the part of a replay that is not the fold.
func (b Replay) pass(ctx context.Context, nc *nats.Conn, d *Deployment, r *Result, name string, visit func(commit []byte) error) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	log, err := eventlog.OpenExisting(ctx, js, bus.DefaultRealm, nil)
	if err != nil {
		return err
	}
	last, _, err := log.Last(ctx)
	if err != nil {
		return err
	}
	before, err := CPUSeconds(d.PIDs())
	if err != nil {
		return err
	}
	start, end := time.Now(), errors.New("the end of the log")
	err = log.Follow(ctx, 1, func(m eventlog.Message) error {
		var room []byte
		commit, err := m.Open(&room)
		if err == nil {
			err = visit(commit)
		}
		if err != nil || m.Position < last {
			return err
		}
		return end
	})
	if !errors.Is(err, end) {
		return err
	}
	r.Detail(name+"_seconds", time.Since(start).Seconds())
	after, err := CPUSeconds(d.PIDs())
	if UsageKnown {
		r.Detail(name+"_cpu_seconds", after-before)
	}
	return err
}

// Restart measures how long a realm takes to start again after a stop and after a
// kill.
type Restart struct{ Objects int }

// Run starts all services in one process and creates the objects. It stops the process and starts
// it again, and then kills it and starts it again. Both times it measures from the start until a
// command is answered, which includes the recovery of the NATS server. Seconds is the time after
// the kill.
func (b Restart) Run(ctx context.Context, d *Deployment) (*Result, error) {
	r := &Result{Name: "restart", Objects: b.Objects}
	one, err := d.aside(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = one.end() }()
	if err := one.populate(ctx, b.Objects); err != nil {
		return nil, err
	}
	if err := one.child.Stop(); err != nil {
		return nil, err
	}
	stopped, err := one.answered(ctx)
	if err != nil {
		return nil, err
	}
	if err := one.child.Kill(); err != nil {
		return nil, err
	}
	killed, err := one.answered(ctx)
	if err != nil {
		return nil, err
	}
	if err := one.measured(r); err != nil {
		return nil, err
	}
	r.Seconds, r.ObjectsPerSecond = killed.Seconds(), float64(b.Objects)/killed.Seconds()
	r.Detail("seconds_after_stop", stopped.Seconds())
	r.Detail("seconds_after_kill", killed.Seconds())
	return r, one.check(ctx)
}

// Memory measures the memory of a realm with many objects.
type Memory struct{ Objects int }

// Run creates the objects with all services in one process, and gets a sample of them.
// PeakRSSBytes is the largest resident memory of this process.
func (b Memory) Run(ctx context.Context, d *Deployment) (*Result, error) {
	r := &Result{Name: "memory", Objects: b.Objects}
	one, err := d.aside(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = one.end() }()
	start := time.Now()
	if err := one.populate(ctx, b.Objects); err != nil {
		return nil, err
	}
	r.Seconds = time.Since(start).Seconds()
	r.ObjectsPerSecond = float64(b.Objects) / r.Seconds
	if err := one.check(ctx); err != nil {
		return nil, err
	}
	return r, one.measured(r)
}

// aside is a process of its own that runs all services.
type aside struct {
	d     *Deployment
	dir   string
	port  int
	child *Child
	nc    *nats.Conn
	place Place // of the objects
}

// aside starts all services in a process of their own.
func (d *Deployment) aside(ctx context.Context) (*aside, error) {
	if !d.local() {
		return nil, errElsewhere
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	a := &aside{d: d, dir: filepath.Join(d.c.Dir, "aside"), port: port}
	_, err = a.answered(ctx)
	return a, err
}

// answered starts the process, and returns the time until it has answered a
// command.
func (a *aside) answered(ctx context.Context) (time.Duration, error) {
	if a.nc != nil {
		a.nc.Close()
	}
	start := time.Now()
	var err error
	if a.child, err = up(a.dir, a.port); err != nil {
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
	_, err = a.deployment().NewPlace(ctx)
	return time.Since(start), err
}

func (a *aside) client() *client.Client { return client.New(a.nc, client.WithActor(Actor)) }

// deployment returns the process as a Deployment.
func (a *aside) deployment() *Deployment {
	d := *a.d
	d.Client = a.client()
	return &d
}

func (a *aside) populate(ctx context.Context, n int) error {
	var err error
	a.place, err = a.deployment().Fill(ctx, n)
	return err
}

// check checks that a sample of the objects exists. A list of all objects would
// take longer than the measurement.
func (a *aside) check(ctx context.Context) error {
	d, p := a.deployment(), a.place
	p.Objects = d.Client.Resource(Pods, p.Namespace)
	return d.CheckSample(ctx, p)
}

// measured adds what the process has used to r.
func (a *aside) measured(r *Result) (err error) {
	pids := []int{a.child.PID()}
	r.Sync, r.Processes, r.Version = true, 2, a.d.c.Version
	if r.CPUSeconds, err = CPUSeconds(pids); err != nil {
		return err
	}
	r.PeakRSSBytes, err = PeakRSS(pids)
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
