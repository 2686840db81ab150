package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/coppice-gc/coppice/cmd/coppice/bench"
	"github.com/coppice-gc/coppice/services/allinone"
)

// Cluster measures what three copies of each stream cost: creations by 64 callers and a wide cascade on a
// cluster of three NATS servers, and on one.
type Cluster struct {
	// Objects are created by the callers, and as many are deleted in the cascade.
	Objects int
	// Rounds is how often each of the two is measured.
	Rounds int
}

// clusterServers is the number of NATS servers of the cluster.
const clusterServers = 3

// Run measures one server and three in turn, each in a realm of its own. All servers and services are
// in this process and share its cores and its disk. The rate is the median of creations on the cluster.
func (b Cluster) Run(ctx context.Context, c bench.Config) (*bench.Result, error) {
	r := &bench.Result{Name: "cluster of three NATS servers: create, 64 callers", Objects: b.Objects, Sync: true, Processes: 1, Version: c.Version}
	type rates struct{ create, cascade []float64 }
	of := map[int]*rates{1: {}, clusterServers: {}}
	for round := range b.Rounds {
		order := []int{1, clusterServers}
		if round%2 == 1 {
			order = []int{clusterServers, 1}
		}
		for _, servers := range order {
			create, cascade, err := b.round(ctx, c, fmt.Sprintf("round-%d-%d", round, servers), servers)
			if err != nil {
				return nil, fmt.Errorf("%d NATS servers: %w", servers, err)
			}
			of[servers].create, of[servers].cascade = append(of[servers].create, create), append(of[servers].cascade, cascade)
		}
		c.Progress("rounds", round+1, b.Rounds)
	}
	create, cascade := median(of[clusterServers].create), median(of[clusterServers].cascade)
	one, oneCascade := median(of[1].create), median(of[1].cascade)
	r.ObjectsPerSecond, r.Seconds = create, float64(b.Objects)/create
	r.Detail("one_server_objects_per_second", one)
	r.Detail("to_one_server", create/one)
	r.Detail("cascade_objects_per_second", cascade)
	r.Detail("cascade_one_server_objects_per_second", oneCascade)
	r.Detail("cascade_to_one_server", cascade/oneCascade)
	return r, nil
}

// round returns the rates of creations and of a cascade.
func (b Cluster) round(ctx context.Context, c bench.Config, name string, servers int) (create, cascade float64, err error) {
	quiet := slog.New(slog.DiscardHandler) // NATS warns of each start and stop of a cluster
	d, err := bench.Start(ctx, allinone.Config{Dir: filepath.Join(c.Dir, name), Servers: servers, Version: c.Version, Log: quiet}, c)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	created, err := bench.Create{Objects: b.Objects, Callers: 64, Batch: 1}.Run(ctx, d)
	if err != nil {
		return 0, 0, err
	}
	deleted, err := bench.Cascade{Objects: b.Objects, Shape: "wide", Policy: "Background"}.Run(ctx, d)
	if err != nil {
		return 0, 0, err
	}
	return created.ObjectsPerSecond, deleted.ObjectsPerSecond, nil
}
