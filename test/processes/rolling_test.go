//go:build unix

package processes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// longestDelay is the longest time that a cascade may take while processes are restarted. Without
// restarts it takes a fraction of a second; a message that is lost to a process that has
// stopped is delivered again after bus.WorkAckWait or bus.CallAckWait.
const longestDelay = 5 * time.Second

// Each process of a deployment on three NATS servers is stopped and started again, one after the
// other, while cascades run. No cascade waits for a process that has stopped.
func TestRollingRestart(t *testing.T) {
	nightly.Test(t, nightly.Minutes)
	d := newDeployment(t)
	d.natsCluster(3)
	var all []*rolled
	add := func(role string, count int, args func(name string) []string) {
		for i := range count {
			r := &rolled{d: d, name: fmt.Sprintf("%s-%d", role, i+1), role: role, args: args}
			r.start()
			all = append(all, r)
		}
	}
	most := longestDelay
	if testkit.Raced {
		most *= 4
	}
	add(bus.RoleGraph, 2, func(name string) []string {
		return []string{"--data", filepath.Join(d.dir, name), "--replicas", "3"}
	})
	none := func(string) []string { return nil }
	add(bus.RoleProcessor, 2, none)
	add(bus.RoleFinalizers, 2, none)
	add(bus.RoleScanner, 1, none)
	add(bus.RoleFinalizer, 2, nil)

	ctx, stop := context.WithCancel(d.ctx)
	l := &rollingLoad{t: t, ctx: ctx, client: d.application(), running: map[int]bool{}}
	var running sync.WaitGroup
	running.Go(l.run)
	defer func() {
		stop()
		running.Wait()
	}()
	l.ended(20)
	t.Logf("no restart: the slowest cascade took %s", l.slowest())
	for _, r := range all {
		begun := time.Now()
		r.stop()
		stopped := time.Since(begun)
		r.start()
		l.ended(20) // those that had begun before, and more
		took := l.slowest()
		t.Logf("restart of %s, which stopped after %s: the slowest cascade took %s", r.name, stopped.Round(time.Millisecond), took)
		if took > most {
			t.Errorf("restart of %s: a cascade took %s, want at most %s", r.name, took, most)
		}
	}
}

// natsCluster starts several servers, and waits until JetStream has a leader.
func (d *deployment) natsCluster(n int) {
	d.t.Helper()
	ports := testkit.FreePorts(d.t, 2*n)
	d.port, d.cluster = ports[0], ports[1:n]
	var routes []string
	for _, p := range ports[n:] {
		routes = append(routes, "nats://127.0.0.1:"+strconv.Itoa(p))
	}
	for i := range n {
		name := fmt.Sprint("n", i+1)
		dir := filepath.Join(d.dir, name)
		must.Succeed(d.t, os.Mkdir(dir, 0o700))
		start(d.t, d.ctx, dir, name, passwords(nil), program("nats-server"), "--config", d.configuration(dir), "--port", strconv.Itoa(ports[i]),
			"--name", name, "--cluster_name", "rolling", "--cluster", routes[i], "--routes", strings.Join(routes, ","))
	}
	var js jetstream.JetStream
	testkit.WaitFor(d.t, d.ctx, "JetStream of the cluster", func() bool {
		ctx, cancel := testkit.Attempt(d.ctx)
		defer cancel()
		if js == nil {
			nc, err := d.connect(bus.RoleAdmin)
			if err != nil {
				return false
			}
			d.t.Cleanup(nc.Close)
			if js, err = jetstream.New(nc); err != nil {
				d.t.Fatal(err)
			}
		}
		_, err := js.AccountInfo(ctx)
		return err == nil
	})
}

// rolled is a process that is restarted. The external finalizer is a part of the test, with a
// connection of its own.
type rolled struct {
	d          *deployment
	name, role string
	args       func(name string) []string
	stop       func()
}

func (r *rolled) start() {
	r.d.t.Helper()
	if r.args != nil {
		p := r.d.instance(r.name, r.role, r.args(r.name)...)
		p.ready()
		r.stop = p.terminate
		return
	}
	nc := r.d.conn(r.role, nil)
	ctx, cancel := context.WithCancel(r.d.ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- client.New(nc, client.WithActor(r.role)).RunFinalizer(ctx, bus.ExampleFinalizer, func(context.Context, *client.Call) error { return nil })
		nc.Close()
	}()
	r.stop = func() {
		r.d.t.Helper()
		cancel()
		if err := testkit.Receive(r.d.t, r.d.ctx, "the end of "+r.name, ended); err != nil {
			r.d.t.Error(err)
		}
	}
}

// rollingLoad begins cascades all the time.
type rollingLoad struct {
	t      *testing.T
	ctx    context.Context
	client *client.Client

	mu      sync.Mutex
	next    int          // the number of the next cascade
	running map[int]bool // those that have not ended
	most    time.Duration
}

// rollingPause is the time between the beginnings of two cascades.
const rollingPause = 100 * time.Millisecond

func (l *rollingLoad) run() {
	var g sync.WaitGroup
	defer g.Wait()
	tick := time.NewTicker(rollingPause)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-l.ctx.Done():
			return
		case <-tick.C:
		}
		l.mu.Lock()
		l.next, l.running[i] = i+1, true
		l.mu.Unlock()
		g.Go(func() {
			took, err := l.cascade(i)
			if l.ctx.Err() != nil {
				return
			}
			if err != nil {
				l.t.Errorf("cascade %d: %v", i, err)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.most = max(l.most, took)
			delete(l.running, i)
		})
	}
}

// slowest returns how long the slowest cascade took that has ended since the last call.
func (l *rollingLoad) slowest() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { l.most = 0 }()
	return l.most.Round(time.Millisecond)
}

// ended waits until all cascades have ended that had begun, and n more.
func (l *rollingLoad) ended(n int) {
	l.t.Helper()
	l.mu.Lock()
	until := l.next + n
	l.mu.Unlock()
	testkit.WaitFor(l.t, l.ctx, "the end of cascades", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.next < until {
			return false
		}
		for i := range l.running {
			if i < until {
				return false
			}
		}
		return true
	})
}

// cascade creates a tree, deletes its root, and waits until the tree is gone. It returns the time
// from the deletion on.
func (l *rollingLoad) cascade(i int) (time.Duration, error) {
	ns := fmt.Sprintf("rolling-%d", i)
	roots, err := l.create(deployments, ns, object("root"))
	if err != nil {
		return 0, err
	}
	sets, err := l.create(replicasets, ns, object("set-1", roots...), object("set-2", roots...))
	if err != nil {
		return 0, err
	}
	var list []*coppicev1.Object
	for k := range 10 {
		list = append(list, object(fmt.Sprint("pod-", k), sets[k%2]))
	}
	if i%3 == 0 {
		list = append(list, blockedObject("finalized", sets[0]))
	}
	if _, err := l.create(pods, ns, list...); err != nil {
		return 0, err
	}
	begun := time.Now()
	policy := []string{"Background", "Foreground", "Orphan"}[i%3]
	if _, err := l.client.Resource(deployments, ns).Delete(l.ctx, "root", client.PropagationPolicy(policy)); err != nil {
		return 0, err
	}
	gone := []client.Resource{deployments}
	if policy != "Orphan" {
		gone = append(gone, replicasets, pods)
	}
	for _, r := range gone {
		for {
			page, err := l.client.Resource(r, ns).ListPage(l.ctx, client.Limit(1))
			if err != nil {
				return 0, err
			}
			if len(page.Objects) == 0 {
				break
			}
			select {
			case <-l.ctx.Done():
				return 0, l.ctx.Err()
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return time.Since(begun), nil
}

func (l *rollingLoad) create(r client.Resource, ns string, objects ...*coppicev1.Object) ([]*coppicev1.Object, error) {
	results, err := l.client.Resource(r, ns).CreateBatch(l.ctx, objects)
	if err != nil {
		return nil, err
	}
	var created []*coppicev1.Object
	for _, result := range results {
		err = errors.Join(err, result.Err)
		created = append(created, result.Object)
	}
	return created, err
}
