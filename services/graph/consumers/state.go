package consumers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Fresh is the age up to which the NATS server's list of consumers is used again.
const Fresh = time.Second

// State is the state of a consumer.
type State struct {
	Status coppicev1.ConsumerStatus
	Live   bool
	// Answered: a program has asked for calls.
	Answered bool
	// Working is since when a program works on the oldest call in progress.
	Working time.Time
	// Silent is the last sign of a program that is not live; zero if there was none.
	Silent time.Time
	// Error is the last error of a call that is not done, at Failed. Retry is the next time at
	// which a failed call is delivered again.
	Error         string
	Failed, Retry time.Time
	// Process is what the program says that it is.
	Process string
	// Pending and Unacknowledged are calls that wait to be delivered, and that were.
	Pending, Unacknowledged uint64
}

// String describes the state for people. Times are in UTC.
func (is *State) String() string {
	clock := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	said := "a program waits for calls"
	switch is.Status {
	case coppicev1.ConsumerStatus_CONSUMER_STATUS_NONE:
		said = "no consumer: no program has asked for its calls"
		if !is.Silent.IsZero() {
			said = "no consumer: no program asks for its calls, the last one did until " + clock(is.Silent)
		}
	case coppicev1.ConsumerStatus_CONSUMER_STATUS_SILENT:
		said = "silent since " + clock(is.Silent)
	case coppicev1.ConsumerStatus_CONSUMER_STATUS_WORKING:
		said = "working since " + clock(is.Working)
	case coppicev1.ConsumerStatus_CONSUMER_STATUS_RETRYING:
		said = "calls have failed"
	}
	if is.Error != "" {
		said += "; the last error"
		if !is.Failed.IsZero() {
			said += ", at " + clock(is.Failed)
		}
		said += ": " + is.Error
	}
	if !is.Retry.IsZero() {
		said += "; next retry at " + clock(is.Retry)
	}
	return said
}

// List reads the consumers of the realm's calls from the NATS server, unless it did so a moment
// ago. The map must not be changed.
func (o *Observer) List(ctx context.Context) (map[string]*jetstream.ConsumerInfo, error) {
	o.listing.Lock()
	defer o.listing.Unlock()
	if list := o.fresh(); list != nil {
		return list, nil
	}
	stream, err := o.js.Stream(ctx, bus.FinalizeStream(o.realm))
	if err != nil {
		return nil, fmt.Errorf("stream of calls: %w", err)
	}
	list := map[string]*jetstream.ConsumerInfo{}
	infos := stream.ListConsumers(ctx)
	for i := range infos.Info() {
		list[i.Name] = i
	}
	if err := infos.Err(); err != nil {
		return nil, fmt.Errorf("consumers of calls: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.listed, o.listedAt = list, o.now()
	return list, nil
}

func (o *Observer) fresh() map[string]*jetstream.ConsumerInfo {
	o.mu.Lock()
	defer o.mu.Unlock()
	if age := o.now().Sub(o.listedAt); o.listed != nil && age >= 0 && age < Fresh {
		return o.listed
	}
	return nil
}

// Live returns the durable consumers that are live.
func (o *Observer) Live(ctx context.Context) (map[string]bool, error) {
	list, err := o.List(ctx)
	if err != nil {
		return nil, err
	}
	live := make(map[string]bool, len(list))
	for name, info := range list {
		live[name] = o.State(name, info).Live
	}
	return live, nil
}

// Of returns the state of one consumer, as the NATS server knows it now.
func (o *Observer) Of(ctx context.Context, durable string) (State, *jetstream.ConsumerInfo, error) {
	consumer, err := o.js.Consumer(ctx, bus.FinalizeStream(o.realm), durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return o.State(durable, nil), nil, nil
	}
	if err != nil {
		return State{}, nil, fmt.Errorf("consumer %s: %w", durable, err)
	}
	info := consumer.CachedInfo()
	return o.State(durable, info), info, nil
}

// State returns the state of a consumer. info is what the NATS server says about it, nil if it does not
// exist.
func (o *Observer) State(durable string, info *jetstream.ConsumerInfo) (is State) {
	now := o.now()
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.seen[durable]
	if s == nil {
		s = &seen{}
	}
	is.Answered = info != nil || !s.at.IsZero()
	if info == nil {
		delete(o.pulled, durable)
		is.Status, is.Silent = coppicev1.ConsumerStatus_CONSUMER_STATUS_NONE, s.at
		return is
	}
	is.Process = info.Config.Metadata[bus.MetaProcess]
	is.Pending, is.Unacknowledged = info.NumPending, uint64(info.NumAckPending)
	signed := later(s.at, info.AckFloor.Last)
	given := later(time.Time{}, info.Delivered.Last)
	is.Live = o.pulls(durable, info.NumWaiting, now) || info.PushBound || within(now, signed, LiveFor) || within(now, given, bus.CallAckWait)
	retrying := s.summarize(&is, info.AckFloor.Stream, now)
	switch {
	case !is.Live:
		is.Status, is.Silent, is.Working = coppicev1.ConsumerStatus_CONSUMER_STATUS_SILENT, later(signed, info.Delivered.Last), time.Time{}
		if is.Silent.IsZero() {
			is.Silent = info.Created
		}
	case info.NumAckPending > retrying:
		is.Status = coppicev1.ConsumerStatus_CONSUMER_STATUS_WORKING
		if is.Working.IsZero() {
			is.Working = given
		}
	case retrying > 0:
		is.Status, is.Working = coppicev1.ConsumerStatus_CONSUMER_STATUS_RETRYING, time.Time{}
	default:
		is.Status, is.Working = coppicev1.ConsumerStatus_CONSUMER_STATUS_IDLE, time.Time{}
	}
	return is
}

// pulls reports whether a consumer has a pull request open, or had one a moment ago.
func (o *Observer) pulls(durable string, waiting int, now time.Time) bool {
	switch {
	case waiting > 0:
		if len(o.pulled) >= maxConsumers {
			clear(o.pulled) // some consumers may count as silent between two requests
		}
		o.pulled[strings.Clone(durable)] = now
		return true
	case within(now, o.pulled[durable], betweenPulls):
		return true
	}
	delete(o.pulled, durable)
	return false
}

// summarize sets what the calls of a consumer show, and returns how many of them failed and wait
// until they are delivered again. The calls up to the sequence done are done, although their
// acknowledgements may not have arrived here yet, or may be lost.
func (s *seen) summarize(is *State, done uint64, now time.Time) (retrying int) {
	for sequence, c := range s.calls {
		if sequence <= done || c.expired(now) {
			continue
		}
		switch {
		case !c.Since.IsZero():
			if is.Working.IsZero() || c.Since.Before(is.Working) {
				is.Working = c.Since
			}
		case c.Retry.After(now):
			retrying++
			if is.Retry.IsZero() || c.Retry.Before(is.Retry) {
				is.Retry = c.Retry
			}
		}
		if c.Error != "" && (is.Error == "" || c.Failed.After(is.Failed)) {
			is.Error, is.Failed = c.Error, c.Failed
		}
	}
	return retrying
}

// Call returns what is known of a call of a consumer; the zero Call if nothing is.
func (o *Observer) Call(durable string, sequence uint64) Call {
	now := o.now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.seen[durable]; s != nil && s.calls[sequence] != nil && !s.calls[sequence].expired(now) {
		return *s.calls[sequence]
	}
	return Call{}
}

// Status returns the state of the call on a subject. info is what the NATS server says about the
// consumer, nil if that does not exist.
func (o *Observer) Status(ctx context.Context, subject string, info *jetstream.ConsumerInfo) (*coppicev1.CallStatus, error) {
	is := &coppicev1.CallStatus{}
	if info == nil || info.NumAckPending == 0 {
		return is, nil
	}
	stream, err := o.js.Stream(ctx, bus.FinalizeStream(o.realm))
	if err != nil {
		return nil, err
	}
	m, err := stream.GetLastMsgForSubject(ctx, subject)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return is, nil
	case err != nil:
		return nil, err
	}
	is.Call = m.Sequence
	// An acknowledged call is removed from the stream, and a consumer is given its calls in order.
	is.Delivered = m.Sequence > info.AckFloor.Stream && m.Sequence <= info.Delivered.Stream
	c := o.Call(info.Name, m.Sequence)
	is.Attempts, is.LastError = uint32(c.Attempts), c.Error
	is.WorkingSince, is.LastErrorTime = Micro(c.Since), Micro(c.Failed)
	if c.Retry.After(o.now()) && c.Since.IsZero() {
		is.NextRetry = Micro(c.Retry)
	}
	return is, nil
}

// Micro returns a time in Unix microseconds, zero for the zero time.
func Micro(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func within(now, at time.Time, d time.Duration) bool { return !at.IsZero() && now.Sub(at) < d }

func later(a time.Time, b *time.Time) time.Time {
	if b != nil && b.After(a) {
		return *b
	}
	return a
}
