package consumers

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
)

// LiveFor is the time after its last sign for which a consumer without a pull request is live.
const LiveFor = time.Minute

// betweenPulls is the time after which a consumer that had a pull request open is known to have none: a
// program that waits for calls has none for a moment between two of them.
const betweenPulls = 5 * time.Second

// Bounds of what is remembered.
const (
	maxCalls     = 16_384 // of all consumers
	maxCallsEach = bus.CallMaxPending
	maxConsumers = 2048
	maxError     = 512 // bytes
	keptCall     = 2 * LiveFor
	longestWork  = 366 * 24 * time.Hour // a program that says that it has worked for longer is not believed
	forgetEvery  = 10 * time.Second     // forgetOld reads all calls
)

// Observer observes the consumers of the calls of one realm. Its methods are safe for concurrent
// use.
type Observer struct {
	js    jetstream.JetStream
	realm string
	now   func() time.Time

	mu       sync.Mutex
	seen     map[string]*seen     // by durable consumer
	calls    int                  // in seen
	forgot   time.Time            // when forget was called last
	pulled   map[string]time.Time // when consumers were last seen with a pull request, of the last betweenPulls
	listed   map[string]*jetstream.ConsumerInfo
	listedAt time.Time
	streams  map[string]jetstream.Stream

	listing chan struct{} // one request at a time
}

// Attempts counts attempts at calls by their outcome.
type Attempts struct {
	// Done are those whose call is done, Failed those that failed, and Returned those whose program handed the
	// call back without having failed.
	Done, Failed, Returned uint64
}

// seen is what was observed of a consumer.
type seen struct {
	attempts Attempts         // since the last TakeAttempts
	at       time.Time        // the last acknowledgement or report
	calls    map[uint64]*Call // that are not done
}

// Call is what is known of a call that was delivered and is not done.
type Call struct {
	// Attempts is the number of deliveries. Returned counts those after which a program handed the call back
	// without having failed.
	Attempts, Returned int
	// Since is when the attempt that is in progress began; zero if none is.
	Since time.Time
	// Error is that of the last failed attempt, at Failed; empty if none has failed. Retry is when
	// the call is delivered again.
	Error         string
	Failed, Retry time.Time

	at       time.Time // the last report
	returned time.Time // when it was handed back last
}

// Failures is the number of attempts that are known to have failed: without an error, a call may have been delivered
// again because a program has stopped or died.
func (c *Call) Failures() int {
	if c.Error == "" {
		return 0
	}
	n := c.Attempts - c.Returned
	if !c.Since.IsZero() {
		n--
	}
	return max(n, 1)
}

// New returns an observer that observes nothing until Observe.
func New(js jetstream.JetStream, realm string, now func() time.Time) *Observer {
	return &Observer{js: js, realm: realm, now: now, seen: map[string]*seen{}, pulled: map[string]time.Time{}, streams: map[string]jetstream.Stream{}, listing: make(chan struct{}, 1)}
}

// Observe receives acknowledgements until stop is called.
func (o *Observer) Observe(nc *nats.Conn) (stop func(), err error) {
	sub, err := nc.Subscribe(bus.CallAcks(o.realm), o.receive)
	if err != nil {
		return nil, err
	}
	return func() { _ = sub.Unsubscribe() }, nil
}

// receive observes one acknowledgement or report. Memory is bounded for any content, because a client
// may publish anything about the calls of its own finalizer.
func (o *Observer) receive(m *nats.Msg) {
	a, ok := bus.ParseAck(m.Subject)
	if !ok {
		return
	}
	now := o.now()
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.consumer(a.Durable, now)
	if s == nil {
		return
	}
	s.at = now
	s.attempts.count(m)
	switch {
	case bytes.HasPrefix(m.Data, []byte("-NAK")):
		if c := o.call(s, a.Sequence, now); c != nil {
			c.Attempts, c.Since = a.Attempt, time.Time{}
			if len(m.Header[bus.HeaderReturned]) > 0 {
				c.Returned++
				c.returned = now
				break
			}
			c.Failed, c.Retry = now, now.Add(delayOf(m.Data[len("-NAK"):]))
			c.Error = errorOf(m, "the attempt failed, and the program gave no reason")
		}
	case bytes.Equal(m.Data, []byte("+WPI")):
		if c := o.call(s, a.Sequence, now); c != nil {
			if c.Since.IsZero() || c.Attempts != a.Attempt {
				c.Since = now
			}
			c.Attempts = a.Attempt
			if ms, err := strconv.ParseInt(m.Header.Get(bus.HeaderSince), 10, 64); err == nil {
				if t := time.UnixMilli(ms); t.Before(now) && now.Sub(t) < longestWork {
					c.Since = t
				}
			}
			if c.Error == "" && m.Header.Get(bus.HeaderError) != "" {
				c.Error = errorOf(m, "")
			}
		}
	default: // done
		if s.calls[a.Sequence] != nil {
			delete(s.calls, a.Sequence)
			o.calls--
		}
	}
}

// count counts an attempt that an acknowledgement ends.
func (a *Attempts) count(m *nats.Msg) {
	switch {
	case bytes.Equal(m.Data, []byte("+WPI")): // in progress
	case bytes.HasPrefix(m.Data, []byte("+TERM")):
		a.Failed++ // the program gives the call up
	case !bytes.HasPrefix(m.Data, []byte("-NAK")):
		a.Done++
	case len(m.Header[bus.HeaderReturned]) > 0:
		a.Returned++
	default:
		a.Failed++
	}
}

// TakeAttempts returns the attempts since the last TakeAttempts, by durable consumer.
func (o *Observer) TakeAttempts() map[string]Attempts {
	o.mu.Lock()
	defer o.mu.Unlock()
	taken := map[string]Attempts{}
	for durable, s := range o.seen {
		if s.attempts != (Attempts{}) {
			taken[durable], s.attempts = s.attempts, Attempts{}
		}
	}
	return taken
}

// consumer returns what was seen of a consumer, nil if there are too many.
func (o *Observer) consumer(durable string, now time.Time) *seen {
	s := o.seen[durable]
	if s == nil && len(o.seen) >= maxConsumers {
		o.forgetOld(now)
	}
	if s == nil && len(o.seen) < maxConsumers {
		s = &seen{calls: map[uint64]*Call{}}
		o.seen[strings.Clone(durable)] = s
		o.listedAt = time.Time{} // the list may not have it yet
	}
	return s
}

// call returns what is known of a call, nil if there are too many. A client may report any number of calls that do not
// exist to its own consumer, with delays of any length: the places of other consumers are not affected.
func (o *Observer) call(s *seen, sequence uint64, now time.Time) *Call {
	c := s.calls[sequence]
	if c == nil {
		full := func() bool { return o.calls >= maxCalls || len(s.calls) >= maxCallsEach }
		if full() {
			o.forgetOld(now)
		}
		if full() {
			return nil
		}
		c = &Call{}
		s.calls[sequence] = c
		o.calls++
	}
	c.at = now
	return c
}

// forgetOld forgets calls of which nothing was heard for long: they are done, and the
// acknowledgement was lost. It also forgets consumers without calls. It does nothing within forgetEvery.
func (o *Observer) forgetOld(now time.Time) {
	if now.Sub(o.forgot) <= forgetEvery {
		return
	}
	o.forgot = now
	for durable, s := range o.seen {
		for sequence, c := range s.calls {
			if c.expired(now) {
				delete(s.calls, sequence)
				o.calls--
			}
		}
		if len(s.calls) == 0 && now.Sub(s.at) > keptCall {
			delete(o.seen, durable)
		}
	}
}

func (c *Call) expired(now time.Time) bool {
	last := c.at
	if c.Retry.After(last) {
		last = c.Retry
	}
	return now.Sub(last) > keptCall
}

// delayOf returns the delay that a -NAK asks for: {"delay": nanoseconds}, or text such as "5s".
func delayOf(argument []byte) time.Duration {
	argument = bytes.TrimSpace(argument)
	if len(argument) == 0 {
		return 0
	}
	var o struct {
		Delay time.Duration `json:"delay"`
	}
	if argument[0] == '{' {
		_ = json.Unmarshal(argument, &o) // a server that cannot read it does not delay either
	} else {
		o.Delay, _ = time.ParseDuration(string(argument))
	}
	return max(o.Delay, 0)
}

func errorOf(m *nats.Msg, none string) string {
	text := m.Header.Get(bus.HeaderError)
	if text == "" {
		return none
	}
	return strings.Clone(strings.ToValidUTF8(text[:min(len(text), maxError)], "")) // without the rest of the header
}
