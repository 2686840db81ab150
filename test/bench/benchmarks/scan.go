package benchmarks

import (
	"context"
	"errors"
	"math"

	"github.com/coppice-gc/coppice/cmd/coppice/bench"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/services/scanner"
)

// Scan measures the scanner's walk over all objects.
type Scan struct{ Objects int }

// Run creates the objects, and measures a walk over all objects of the realm.
func (b Scan) Run(ctx context.Context, c bench.Config) (_ *bench.Result, err error) {
	d, err := bench.Deploy(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	r := &bench.Result{Name: "scan", Objects: b.Objects}
	if _, err := d.Fill(ctx, b.Objects); err != nil {
		return nil, err
	}
	nc, err := d.Conn(bus.RoleScanner)
	if err != nil {
		return nil, err
	}
	s, err := scanner.New(scanner.Config{Conn: nc, Realms: []string{bus.DefaultRealm}, Rate: math.MaxInt, Log: c.Log})
	if err != nil {
		return nil, err
	}
	m, err := d.Measure(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.Walk(ctx); err != nil {
		return nil, err
	}
	return r, m.Stop(ctx, r)
}
