package testkit

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// Proxy stands between clients and a server on the loopback interface, and can
// break what passes through it. Its methods are safe for concurrent use.
type Proxy struct {
	tb       testing.TB
	listener net.Listener
	target   string

	mu     sync.Mutex
	change *sync.Cond
	modes  [2]Mode
	delay  time.Duration
	held   [2]int // bytes
	lost   [2]int
	conns  map[net.Conn]bool
	closed bool
	wg     sync.WaitGroup
}

// Direction is a direction in which data passes.
type Direction int

// The directions.
const (
	ToServer Direction = iota
	ToClient
)

// Mode is what happens to the data of one direction.
type Mode int

// The modes. Where data was discarded the protocol is broken: Cut the
// connections before passing on more.
const (
	Pass    Mode = iota
	Hold         // until the mode changes: it is delayed, and in order
	Discard      // it is lost
)

// NewProxy returns a proxy to a server, which it is given as its URL.
func NewProxy(tb testing.TB, url string) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(tb, err)
	p := &Proxy{tb: tb, listener: l, target: strings.TrimPrefix(url, "nats://"), conns: map[net.Conn]bool{}}
	p.change = sync.NewCond(&p.mu)
	p.wg.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// URL is where the proxy listens.
func (p *Proxy) URL() string { return "nats://" + p.listener.Addr().String() }

// Set changes what happens to the data of a direction.
func (p *Proxy) Set(d Direction, m Mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.modes[d] = m
	p.change.Broadcast()
}

// Slow delays each part of the data, up to 64 KiB, in both directions. Zero ends the delay.
func (p *Proxy) Slow(delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = delay
}

// Cut breaks all connections. What was held is lost.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut()
}

func (p *Proxy) cut() {
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
	p.change.Broadcast()
}

// Heal cuts what is broken, and passes on what comes from now on.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.modes = [2]Mode{}
	p.cut()
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Cut()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close() // the server is away
			continue
		}
		p.mu.Lock()
		if p.closed {
			_, _ = client.Close(), server.Close()
		}
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		p.wg.Go(func() { p.pass(ToServer, server, client) })
		p.wg.Go(func() { p.pass(ToClient, client, server) })
	}
}

// pass passes data on until one of the ends is closed, and then closes both.
func (p *Proxy) pass(d Direction, to, from net.Conn) {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range []net.Conn{to, from} {
			_ = c.Close()
			delete(p.conns, c)
		}
		p.change.Broadcast()
	}()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			p.pause()
		}
		if n > 0 && p.passes(d, to, n) {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pause waits for the delay of Slow.
func (p *Proxy) pause() {
	p.mu.Lock()
	d := p.delay
	p.mu.Unlock()
	if d > 0 {
		<-time.After(d)
	}
}

// passes waits until data may go on, or is lost.
func (p *Proxy) passes(d Direction, to net.Conn, n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.modes[d] == Hold && p.conns[to] {
		p.held[d] += n
		p.change.Wait()
		p.held[d] -= n
	}
	if p.modes[d] == Pass && p.conns[to] {
		return true
	}
	p.lost[d] += n
	return false
}

// Held is how many bytes are held now, of those that were read.
func (p *Proxy) Held(d Direction) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held[d]
}

// Lost is how many bytes were lost so far.
func (p *Proxy) Lost(d Direction) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost[d]
}
