package benchmarks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/bench"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/dial"
	"github.com/coppice-gc/coppice/internal/poll"
	"github.com/coppice-gc/coppice/internal/secret"
)

// Failover measures how long no command is answered when the writer of a realm is killed
// or stopped, and another graph service takes over.
type Failover struct {
	// Rounds is how often each is done.
	Rounds int
	// Objects are created before.
	Objects int
	// Lease is the lease of the graph services.
	Lease time.Duration
}

// Run starts two graph services as processes, and creates one object after another while it
// kills the writer, and then stops it, Rounds times each. A gap is the longest time between
// two replies meanwhile. Seconds is the longest gap after a kill.
func (b Failover) Run(ctx context.Context, c bench.Config) (_ *bench.Result, err error) {
	server, start, err := c.StartServer()
	if err != nil {
		return nil, err
	}
	pair := &pair{start: func(name string) (*bench.Child, error) {
		return start(bus.RoleGraph, "--data", filepath.Join(c.Dir, name), "--secret", filepath.Join(c.Dir, secret.FileName), "--lease", b.Lease.String())
	}}
	defer func() { err = errors.Join(err, pair.end(), server.Shutdown()) }()
	if err := pair.begin(); err != nil {
		return nil, err
	}
	nc, err := dial.Service(ctx, server.URL(), "coppice-bench", c.Log, server.Options(bench.Actor)...)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	d := bench.Running(client.New(nc, client.WithActor(bench.Actor)), c)
	operator, err := dial.Service(ctx, server.URL(), "coppice-bench", c.Log, server.Options(bus.RoleOperator)...)
	if err != nil {
		return nil, err
	}
	defer operator.Close()
	pair.operator = client.New(operator, client.WithActor(bus.RoleOperator)).Operations()
	if _, err := d.Fill(ctx, b.Objects); err != nil {
		return nil, err
	}
	p, err := d.NewPlace(ctx)
	if err != nil {
		return nil, err
	}
	r := &bench.Result{Name: "failover", Objects: b.Objects, Sync: true, Processes: 3, Version: c.Version}
	began := time.Now()
	for i, kind := range []struct {
		name string
		end  func(*bench.Child) error
	}{{"kill", (*bench.Child).Kill}, {"stop", (*bench.Child).Stop}} {
		var gaps []time.Duration
		for round := range b.Rounds {
			gap, err := pair.gap(ctx, p, kind.end)
			if err != nil {
				return nil, fmt.Errorf("%s %d: %w", kind.name, round+1, err)
			}
			gaps = append(gaps, gap)
			c.Progress("fail-overs", i*b.Rounds+round+1, 2*b.Rounds)
		}
		slices.Sort(gaps)
		r.Detail(kind.name+"_median_seconds", gaps[len(gaps)/2].Seconds())
		r.Detail(kind.name+"_longest_seconds", gaps[len(gaps)-1].Seconds())
	}
	r.Detail("lease_seconds", b.Lease.Seconds())
	r.Seconds = r.Details["kill_longest_seconds"]
	r.ObjectsPerSecond = float64(2*b.Rounds) / time.Since(began).Seconds()
	return r, nil
}

// pair is two graph services, of which one writes.
type pair struct {
	start    func(name string) (*bench.Child, error)
	children [2]*bench.Child
	operator client.OperationsClient
}

func (p *pair) begin() (err error) {
	for i := range p.children {
		if p.children[i], err = p.start(fmt.Sprint("graph-", i+1)); err != nil {
			return err
		}
	}
	return nil
}

// gap ends the writer while commands are sent, and starts it again. It returns the longest
// time between two replies. Before, it waits until the other one has caught up and stands by.
func (p *pair) gap(ctx context.Context, at bench.Place, end func(*bench.Child) error) (longest time.Duration, err error) {
	writer, err := p.writer(ctx)
	if err != nil {
		return 0, err
	}
	other := p.children[1-writer]
	if err := poll.Until(ctx, func() (bool, error) { return other.Printed("standing by"), other.Alive() }); err != nil {
		return 0, err
	}
	if _, err := at.Objects.Create(ctx, at.Dependent()); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	last := time.Now()
	go func() { ended <- end(p.children[writer]) }()
	for done := false; !done; {
		select {
		case err = <-ended: // the next command is the first that the former writer cannot answer
			done = true
		default:
		}
		if _, failed := at.Objects.Create(ctx, at.Dependent()); failed != nil {
			return 0, failed
		}
		longest = max(longest, time.Since(last))
		last = time.Now()
	}
	if err != nil {
		return 0, err
	}
	p.children[writer], err = p.start(fmt.Sprint("graph-", writer+1))
	return longest, err
}

// writer returns the index of the writer. A graph service names itself by its host and its
// process.
func (p *pair) writer(ctx context.Context) (index int, err error) {
	err = poll.Until(ctx, func() (bool, error) {
		list, err := p.operator.ListRealms(ctx)
		if err != nil {
			return false, err
		}
		for _, r := range list {
			for i, c := range p.children {
				if r.GetName() == bus.DefaultRealm && strings.HasSuffix(r.GetWriter(), fmt.Sprint("/", c.PID())) {
					index = i
					return true, nil
				}
			}
		}
		return false, cmp.Or(p.children[0].Alive(), p.children[1].Alive())
	})
	return index, err
}

// end kills both: one may be starting, and the data are temporary.
func (p *pair) end() (err error) {
	for _, c := range p.children {
		if c != nil && c.Alive() == nil {
			err = errors.Join(err, c.Kill())
		}
	}
	return err
}
