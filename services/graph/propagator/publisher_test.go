package propagator_test

import (
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// published is a Publisher that records what was published, and can refuse it.
type published struct {
	mu       sync.Mutex
	messages []*nats.Msg
	refuse   []error // the next ones
	// unsendable, if it is set, refuses messages: at once, or with the answer of the stream.
	unsendable func(*nats.Msg) (atOnce, answer error)
}

func (p *published) refusingWhat(unsendable func(*nats.Msg) (atOnce, answer error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unsendable = unsendable
}

// take returns what was stored since the last call.
func (p *published) take() []*nats.Msg {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.messages
	p.messages = nil
	return m
}

func (p *published) refusing(err error, times int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range times {
		p.refuse = append(p.refuse, err)
	}
}

func (p *published) PublishMsgAsync(m *nats.Msg, _ ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := &future{m: m, ok: make(chan *jetstream.PubAck, 1), err: make(chan error, 1)}
	if p.unsendable != nil {
		switch atOnce, answer := p.unsendable(m); {
		case atOnce != nil:
			return nil, atOnce
		case answer != nil:
			f.err <- answer
			return f, nil
		}
	}
	if len(p.refuse) > 0 {
		f.err <- p.refuse[0]
		p.refuse = p.refuse[1:]
		return f, nil
	}
	p.messages = append(p.messages, m)
	f.ok <- &jetstream.PubAck{}
	return f, nil
}

type future struct {
	m   *nats.Msg
	ok  chan *jetstream.PubAck
	err chan error
}

func (f *future) Ok() <-chan *jetstream.PubAck { return f.ok }
func (f *future) Err() <-chan error            { return f.err }
func (f *future) Msg() *nats.Msg               { return f.m }
