package election

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

const ttl = 10 * time.Second

var errUnreachable = errors.New("unreachable")

// store is a lease that is compared and set, as a graph service does it in a bucket.
type store struct {
	mu       sync.Mutex
	entry    Entry
	revision uint64
}

func (s *store) read() Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entry
}

// carryOut does what was decided for the entry that was read. It reports whether that was still the entry.
func (s *store) carryOut(read Entry, action Action, q *coppicev1.LeaseRequest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entry.Revision != read.Revision {
		return false
	}
	switch action {
	case Put:
		s.revision++
		s.entry = Entry{Holder: q.GetHolder(), About: q.GetAbout(), TTL: time.Duration(q.GetTtl()) * time.Millisecond, Revision: s.revision}
	case Drop:
		s.entry = Entry{}
	}
	return true
}

// world has processes that share a lease.
type world struct {
	store *store
	began time.Time

	mu      sync.Mutex
	rand    *rand.Rand
	leading map[string]bool
	terms   int
	faults  []string
	errors  []error
}

func newWorld(seed uint64) *world {
	return &world{store: &store{}, began: time.Now(), rand: rand.New(rand.NewPCG(seed, 1)), leading: map[string]bool{}}
}

func (w *world) draw(n int64) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rand.Int64N(n)
}

// network is what happens to the requests of a process.
type network struct {
	mu          sync.Mutex
	partitioned bool
	delay       time.Duration // at most, of each step of a request
	loss        int64         // percent of the requests and of the replies
}

func (n *network) set(f func(n *network)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f(n)
}

func (n *network) now() (partitioned bool, delay time.Duration, loss int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.partitioned, n.delay, n.loss
}

// request sends a request over the network: it may arrive after its sender has given up waiting.
func (w *world) request(n *network) func(context.Context, *coppicev1.LeaseRequest) (*coppicev1.LeaseReply, error) {
	return func(ctx context.Context, q *coppicev1.LeaseRequest) (*coppicev1.LeaseReply, error) {
		replies := make(chan *coppicev1.LeaseReply, 1)
		step := func() (lost bool) {
			partitioned, delay, loss := n.now()
			if delay > 0 {
				pass(time.Duration(w.draw(int64(delay))))
			}
			return partitioned || w.draw(100) < loss
		}
		go func() {
			if step() {
				return
			}
			for range 3 {
				read := w.store.read()
				action := Decide(read, q)
				_ = step() // the graph service may be slow, too
				if !w.store.carryOut(read, action, q) {
					continue
				}
				if step() {
					return
				}
				reply, now := &coppicev1.LeaseReply{Held: action == Put}, w.store.read()
				if now.Revision > 0 {
					reply.Lease = &coppicev1.Lease{Holder: now.Holder, About: now.About, Ttl: now.TTL.Milliseconds(), Revision: now.Revision}
				}
				replies <- reply
				return
			}
		}()
		select {
		case r := <-replies:
			return r, nil
		case <-ctx.Done():
			return nil, errUnreachable
		}
	}
}

// config is that of a process whose clock runs at a rate.
func (w *world) config(name string, n *network, rate float64) Config {
	return Config{
		Name: "example.com/sites", TTL: ttl, About: name,
		Request:   w.request(n),
		Retryable: func(err error) bool { return errors.Is(err, errUnreachable) },
		Clock:     func() time.Duration { return time.Duration(rate * float64(time.Since(w.began))) },
		OnState:   func(State) {},
		OnError: func(err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.errors = append(w.errors, err)
		},
	}
}

// lead is what a leader does: it works until its context ends, and needs some time to stop.
func (w *world) lead(name string, stopping time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		w.mu.Lock()
		w.terms++
		for other := range w.leading {
			w.faults = append(w.faults, fmt.Sprintf("%s leads at %v, and so does %s", name, time.Since(w.began), other))
		}
		w.leading[name] = true
		w.mu.Unlock()
		<-ctx.Done()
		pass(stopping)
		w.mu.Lock()
		delete(w.leading, name)
		w.mu.Unlock()
		return nil
	}
}

func (w *world) leaders() (names []string, terms int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.leading {
		names = append(names, name)
	}
	return names, w.terms
}

// Whatever the network does, no two processes lead at the same time; and while it works, one leads.
func TestOneLeader(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(seed)
			type process struct {
				name string
				net  *network
				rate float64
				stop context.CancelFunc
				done chan struct{}
			}
			start := func(p *process) {
				ctx, cancel := context.WithCancel(t.Context())
				p.stop, p.done = cancel, make(chan struct{})
				go func(done chan struct{}) {
					defer close(done)
					// What a leader does stops within the time that the protocol gives it, and often needs all of it.
					stopping := part(ttl, margin-ending-0.002)
					if w.draw(2) == 0 {
						stopping = time.Duration(w.draw(int64(stopping)))
					}
					if err := Run(ctx, w.config(p.name, p.net, p.rate), w.lead(p.name, stopping)); err != nil {
						t.Errorf("%s: %v", p.name, err)
					}
				}(p.done)
			}
			var all []*process
			for i := range 3 {
				p := &process{name: fmt.Sprintf("p%d", i), net: &network{}, rate: 1 + float64(w.draw(50)-25)/1000}
				start(p)
				all = append(all, p)
			}
			for range 30 {
				p := all[w.draw(3)]
				switch w.draw(6) {
				case 5:
					p.net.set(func(n *network) { n.delay = ttl / attempts / 2 }) // most requests are answered in time, some late
				case 0:
					p.net.set(func(n *network) { n.partitioned = !n.partitioned })
				case 1:
					p.net.set(func(n *network) { n.delay = time.Duration(w.draw(int64(ttl))) })
				case 2:
					p.net.set(func(n *network) { n.loss = w.draw(60) })
				case 3:
					p.net.set(func(n *network) { n.partitioned, n.delay, n.loss = false, 0, 0 })
				case 4:
					p.stop()
					<-p.done
					start(p)
				}
				pass(time.Duration(w.draw(int64(2 * ttl))))
			}
			for _, p := range all {
				p.net.set(func(n *network) { n.partitioned, n.delay, n.loss = false, 0, 0 })
			}
			pass(4 * ttl) // requests that are still under way may delay the next leader
			if names, _ := w.leaders(); len(names) != 1 {
				t.Errorf("seed %d: %v lead when the network works", seed, names)
			}
			for _, p := range all {
				p.stop()
				<-p.done
			}
			if names, terms := w.leaders(); len(names) != 0 || terms == 0 {
				t.Errorf("seed %d: %v lead at the end, after %d terms", seed, names, terms)
			}
			for _, f := range w.faults {
				t.Errorf("seed %d: %s", seed, f)
			}
			pass(4 * ttl) // for requests in flight
		})
	})
}

// pass lets time pass in a bubble of time.
func pass(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // no real time passes
