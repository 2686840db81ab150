package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// pool has the goroutines of a worker, which each pull and handle one message after the
// other. While there are no messages, one of them waits for all: a process works in many
// realms, of which most are idle. Each message that arrives adds another, up to
// Config.Concurrency.
type pool struct {
	c        *Config
	group    *errgroup.Group
	pulling  context.Context // ends the pulls
	handling context.Context // ends the handlers
	ackWait  time.Duration

	mu    sync.Mutex
	loops int // that run
	busy  int // of them, those that have a message
}

// loop handles messages one after the other, beginning with m unless that is nil. It
// requests a message only when it is ready to handle it: nothing would extend the deadline of
// a message that waited here, and the server would deliver it to another worker meanwhile.
func (p *pool) loop(m *Message) error {
	for {
		if err := p.pulling.Err(); err != nil {
			if m != nil { // it has arrived since
				m.handBack()
			}
			return err
		}
		if m != nil {
			p.take()
			handle(p.handling, p.c, m, p.ackWait)
			p.done()
			m = nil
			continue
		}
		var err error
		m, err = p.c.pull(p.pulling, pullWaiting)
		if errors.Is(err, errSilent) {
			// Either the server is unavailable, and the pull is repeated, or the consumer
			// was deleted.
			if m, err = p.c.pull(p.pulling, pullNow); errors.Is(err, errSilent) {
				m, err = nil, nil
			}
		}
		if err != nil {
			return err
		}
		if m == nil && p.leave() {
			return nil
		}
	}
}

// take notes that a message has arrived, and adds a loop if there may be one more.
func (p *pool) take() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy++
	if p.loops < p.c.Concurrency {
		p.loops++
		p.group.Go(func() error { return p.loop(nil) })
	}
}

func (p *pool) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
}

// leave reports whether a loop that got no message ends. It does if another waits for
// messages.
func (p *pool) leave() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loops-p.busy <= 1 {
		return false
	}
	p.loops--
	return true
}
