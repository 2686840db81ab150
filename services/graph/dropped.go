package graph

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/services/graph/clock"
)

// droppedShown is how long a process is not ready after the NATS client has dropped requests.
const droppedShown = 10 * time.Second

// dropped counts the requests that the NATS client dropped before the service read them,
// because too many waited in a subscription: see limits.go in package serve. The client reports
// the first one; how many follow is read from the subscription.
type dropped struct {
	count func(realm string, requests int)

	mu     sync.Mutex
	counts map[*nats.Subscription]int // of those that are counted
	realm  string                     // of the last one
	last   time.Duration              // clock.SinceBoot when the last one was counted; 0 for never
}

// watchDropped counts what is dropped on a connection. The connection's own error handler is
// still called.
func watchDropped(nc *nats.Conn, count func(realm string, requests int)) *dropped {
	d := &dropped{count: count, counts: map[*nats.Subscription]int{}}
	if nc == nil {
		return d
	}
	next := nc.ErrorHandler()
	nc.SetErrorHandler(func(nc *nats.Conn, s *nats.Subscription, err error) {
		if s != nil && errors.Is(err, nats.ErrSlowConsumer) {
			d.add(s)
		}
		if next != nil {
			next(nc, s, err)
		}
	})
	return d
}

// add counts what a subscription has dropped, and remembers the subscription.
func (d *dropped) add(s *nats.Subscription) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.counts[s]; !known {
		d.counts[s] = 0
	}
	d.update(s)
}

// measure counts what has been dropped since it was reported.
func (d *dropped) measure() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for s := range d.counts {
		d.update(s)
	}
}

func (d *dropped) update(s *nats.Subscription) {
	all, err := s.Dropped()
	if err != nil { // the subscription has ended
		delete(d.counts, s)
		return
	}
	n := all - d.counts[s]
	if n <= 0 {
		return
	}
	d.counts[s] = all
	d.realm, d.last = bus.RealmOf(s.Subject), clock.SinceBoot()
	d.count(d.realm, n)
}

// check returns an error for a while after requests were dropped.
func (d *dropped) check() error {
	d.measure()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == 0 {
		return nil
	}
	age := clock.SinceBoot() - d.last
	if age > droppedShown {
		return nil
	}
	return fmt.Errorf("realm %s: requests were dropped %s ago, because they arrived faster than they were read; clients repeat them", d.realm, age.Round(time.Second))
}
