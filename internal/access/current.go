package access

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Current is the table that counts now. The zero value has none. It is safe for concurrent use.
type Current struct {
	table atomic.Pointer[Table]
	stale atomic.Bool
}

// Table returns the table, nil if there is none, also if c is nil.
func (c *Current) Table() *Table {
	if c == nil {
		return nil
	}
	return c.table.Load()
}

// Set replaces the table.
func (c *Current) Set(t *Table) { c.table.Store(t) }

// ReadFile reads a users file.
func ReadFile(name string) (*File, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return Parse(name, data)
}

// FollowInterval is how often Follow looks at the file.
const FollowInterval = 5 * time.Second

// Follow reads the file again at each tick until ctx ends, and replaces the table if the file says something else. While the
// file cannot be read or is wrong, the table stays as it was, and an error is logged once.
func (c *Current) Follow(ctx context.Context, name string, tick <-chan time.Time, log *slog.Logger) {
	var last []byte // what the file contained when it was right
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		data, err := os.ReadFile(name)
		if err == nil && last != nil && bytes.Equal(data, last) && !c.stale.Load() {
			continue
		}
		var f *File
		if err == nil {
			f, err = Parse(name, data)
		}
		switch {
		case err != nil:
			if !c.stale.Swap(true) {
				log.Error("the users file cannot be read; what users may do stays as it was", "error", err)
			}
			continue
		case c.stale.Swap(false):
			log.Info("the users file can be read again", "file", name)
		}
		last = data
		if t := f.Table(); t.Digest() != c.Table().Digest() {
			log.Info("the users file has changed", "file", name, "users", len(f.Users), "digest", t.Digest())
			c.Set(t)
		}
	}
}

// Collector returns the metrics of the table.
func (c *Current) Collector() prometheus.Collector { return collector{c} }

type collector struct{ c *Current }

var (
	descInfo  = prometheus.NewDesc("coppice_graph_users_file_info", "1. The digest identifies what the users file says: it is the same for all graph services that have read the same file.", []string{"digest"}, nil)
	descUsers = prometheus.NewDesc("coppice_graph_users_file_users", "Users in the users file.", nil, nil)
	descStale = prometheus.NewDesc("coppice_graph_users_file_stale", "1 while the users file cannot be read or is wrong, so that what users may do is as before.", nil, nil)
)

func (collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- descInfo
	ch <- descUsers
	ch <- descStale
}

func (m collector) Collect(ch chan<- prometheus.Metric) {
	t := m.c.Table()
	if t == nil {
		return
	}
	ch <- prometheus.MustNewConstMetric(descInfo, prometheus.GaugeValue, 1, t.Digest())
	ch <- prometheus.MustNewConstMetric(descUsers, prometheus.GaugeValue, float64(len(t.users)))
	stale := 0.0
	if m.c.stale.Load() {
		stale = 1
	}
	ch <- prometheus.MustNewConstMetric(descStale, prometheus.GaugeValue, stale)
}
