package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Latency measures one client that creates one object after the other.
type Latency struct{ Objects int }

// Run creates the objects. If the deployment runs here, Run also appends as many bytes
// through bare NATS, and syncs as many to the same disk, after each object: all three
// meet the same disturbances and a disk that was idle for a moment (a disk that is
// synced again at once is faster). The graph service has written the state before it
// replies, so that the sync does not compete with it.
func (b Latency) Run(ctx context.Context, d *Deployment) (*Result, error) {
	r := &Result{Name: "latency", Objects: b.Objects}
	p, err := d.NewPlace(ctx)
	if err != nil {
		return nil, err
	}
	m, err := d.Measure(ctx)
	if err != nil {
		return nil, err
	}
	var commands, syncs, requests []time.Duration
	var disk *disk
	var bare *bare
	if d.local() {
		if disk, err = openDisk(d.c.Dir); err != nil {
			return nil, err
		}
		defer func() { _ = disk.close() }()
		if bare, err = startBare(ctx, d.c.Dir); err != nil {
			return nil, err
		}
		defer func() { _ = bare.close() }()
	}
	size := 0
	reference := func() (answered, synced time.Duration, err error) {
		if answered, err = bare.request(ctx, size); err != nil {
			return 0, 0, err
		}
		synced, err = disk.sync(size)
		return answered, synced, err
	}
	for range b.Objects {
		o := p.Dependent()
		start := time.Now()
		if _, err := p.Objects.Create(ctx, o); err != nil {
			return nil, err
		}
		commands = append(commands, time.Since(start))
		d.c.Progress("commands", len(commands), b.Objects)
		if disk == nil {
			continue
		}
		if size == 0 {
			if size, err = m.bytesPerCommit(ctx); err != nil {
				return nil, err
			}
		}
		answered, synced, err := reference()
		if err != nil {
			return nil, err
		}
		requests, syncs = append(requests, answered), append(syncs, synced)
	}
	if err := m.Stop(ctx, r); err != nil {
		return nil, err
	}
	r.Latencies("a command", commands)
	if disk != nil {
		// Measure the CPU time of the reference requests and syncs alone, and
		// subtract it: between commands it cannot be separated from what the
		// services still do after they have replied.
		before, err := CPUSeconds(d.PIDs())
		if err != nil {
			return nil, err
		}
		alone := max(1, b.Objects/10)
		for range alone {
			if _, _, err := reference(); err != nil {
				return nil, err
			}
		}
		after, err := CPUSeconds(d.PIDs())
		if err != nil {
			return nil, err
		}
		r.CPUSeconds -= (after - before) * float64(b.Objects) / float64(alone)
	}
	var total time.Duration // without the syncs between commands
	for _, t := range commands {
		total += t
	}
	r.Seconds = total.Seconds()
	r.ObjectsPerSecond = float64(b.Objects) / r.Seconds
	if disk != nil {
		r.syncs(syncs, size)
		r.Detail("p99_to_sync_p99", float64(Percentile(commands, 99))/float64(Percentile(syncs, 99)))
		r.Detail("bare_nats_p50_ms", Milliseconds(Percentile(requests, 50)))
		r.Detail("bare_nats_p99_ms", Milliseconds(Percentile(requests, 99)))
	}
	return r, d.Count(ctx, p.Namespace, b.Objects)
}

// bytesPerCommit returns the average size of a commit since the start.
func (m *Meter) bytesPerCommit(ctx context.Context) (int, error) {
	info, err := m.log.Info(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the size of the log: %w", err)
	}
	return int((info.State.Bytes - m.Before.Bytes) / max(1, info.State.LastSeq-m.Before.LastSeq)), nil
}

// syncs adds how long syncs of size bytes took.
func (r *Result) syncs(list []time.Duration, size int) {
	r.Detail("sync_p50_ms", Milliseconds(Percentile(list, 50)))
	r.Detail("sync_p99_ms", Milliseconds(Percentile(list, 99)))
	r.Detail("sync_bytes", float64(size))
}

// detailSync measures how long the disk takes to sync size bytes, if the
// deployment runs here.
func (d *Deployment) detailSync(r *Result, size int) error {
	if !d.local() {
		return nil
	}
	disk, err := openDisk(d.c.Dir)
	if err != nil {
		return err
	}
	list := make([]time.Duration, 0, 200)
	for range cap(list) {
		took, err := disk.sync(size)
		if err != nil {
			return errors.Join(err, disk.close())
		}
		list = append(list, took)
	}
	r.syncs(list, size)
	return disk.close()
}

// disk is a file that grows with each sync, as a log does.
type disk struct {
	file *os.File
	b    []byte
}

func openDisk(dir string) (*disk, error) {
	f, err := os.CreateTemp(dir, "sync-")
	return &disk{file: f}, err
}

// sync appends size bytes, and returns how long it took until they were on disk.
func (d *disk) sync(size int) (time.Duration, error) {
	if len(d.b) != size {
		d.b = make([]byte, size)
	}
	start := time.Now()
	if _, err := d.file.Write(d.b); err != nil {
		return 0, err
	}
	err := d.file.Sync()
	return time.Since(start), err
}

func (d *disk) close() error { return errors.Join(d.file.Close(), os.Remove(d.file.Name())) }
