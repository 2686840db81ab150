package benchmarks

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/bench"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/replay"
)

// Replay measures how long a state takes to be built from its log.
type Replay struct {
	Events int
	// Live writes a log of objects that stay, without removals.
	Live bool
}

// Run writes a log, half of it creations and half the removals of a cascade (only
// creations if Live is set), and measures a replay into an empty state.
func (b Replay) Run(ctx context.Context, c bench.Config) (*bench.Result, error) {
	c.Archive = lifecycle.Retention{} // all of the log must be in the stream
	if err := deployed(ctx, c, func(d *bench.Deployment) error { return b.makeLog(ctx, d) }); err != nil {
		return nil, err
	}
	var r *bench.Result
	err := withLog(ctx, c.Dir, func(log *storedLog) (err error) {
		r, err = b.replay(ctx, c, log)
		return err
	})
	return r, err
}

func (b Replay) makeLog(ctx context.Context, d *bench.Deployment) (err error) {
	if b.Live {
		_, err = d.Fill(ctx, b.Events)
	} else {
		_, err = bench.Cascade{Objects: b.Events / 2, Shape: "wide", Policy: "Background"}.Run(ctx, d)
	}
	return err
}

func (b Replay) replay(ctx context.Context, c bench.Config, log *storedLog) (*bench.Result, error) {
	d := bench.Running(client.New(log.nc), c)
	m, err := d.Measure(ctx)
	if err != nil {
		return nil, err
	}
	replayed, err := replay.Rebuild(ctx, log.nc, bus.DefaultRealm, filepath.Join(c.Dir, "replayed"), log.secrets)
	if err != nil {
		return nil, err
	}
	r := &bench.Result{Name: "replay", Objects: int(replayed.Events)}
	if err := m.Stop(ctx, r); err != nil {
		return nil, err
	}
	r.Detail("commits_replayed", float64(replayed.Commits))
	r.Detail("bytes_replayed", float64(m.Before.Bytes))
	return r, errors.Join(b.pass(ctx, log, d, r, "read", func([]byte) error { return nil }), b.pass(ctx, log, d, r, "decode", func(commit []byte) error {
		c, err := eventlog.Decode(commit)
		if err != nil {
			return err
		}
		return c.Unpack(nil)
	}))
}

// pass reads the log once more without folding it, and adds the time and the CPU
// time to r: the part of a replay that is not the fold.
func (b Replay) pass(ctx context.Context, stored *storedLog, d *bench.Deployment, r *bench.Result, name string, visit func(commit []byte) error) error {
	log, err := eventlog.OpenExisting(ctx, stored.js, bus.DefaultRealm, nil) // without the keys
	if err != nil {
		return err
	}
	last, _, err := log.Last(ctx)
	if err != nil {
		return err
	}
	before, err := bench.CPUSeconds(d.PIDs())
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
	after, err := bench.CPUSeconds(d.PIDs())
	if bench.UsageKnown {
		r.Detail(name+"_cpu_seconds", after-before)
	}
	return err
}
