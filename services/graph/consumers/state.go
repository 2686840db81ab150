package consumers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
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

	durable         string
	pulls           bool   // a program waits for calls
	done, delivered uint64 // the last sequences of calls that are all done, and that was delivered
}

// AnyCall returns what is known of all calls that the consumer receives.
func (is *State) AnyCall() *coppicev1.CallStatus {
	c := is.unread()
	if c.LastError = is.Error; c.LastError != "" {
		c.Failures, c.LastErrorTime, c.NextRetry = 1, Micro(is.Failed), Micro(is.Retry)
	}
	return c
}

// unread returns what the state tells about a call of which nothing was read.
func (is *State) unread() *coppicev1.CallStatus {
	c := &coppicev1.CallStatus{Process: is.Process, SilentSince: Micro(is.Silent)}
	switch {
	case is.Status == coppicev1.ConsumerStatus_CONSUMER_STATUS_NONE:
		c.State = coppicev1.CallState_CALL_STATE_NO_CONSUMER
	case !is.Live:
		c.State = coppicev1.CallState_CALL_STATE_SILENT
	}
	return c
}

// List reads the consumers of the realm's calls from the NATS server, unless it did so a moment
// ago. The map must not be changed.
func (o *Observer) List(ctx context.Context) (map[string]*jetstream.ConsumerInfo, error) {
	select {
	case o.listing <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("consumers of calls: %w", ctx.Err())
	}
	defer func() { <-o.listing }()
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
	is.durable, is.Answered = durable, info != nil || !s.at.IsZero()
	if info == nil {
		delete(o.pulled, durable)
		is.Status, is.Silent = coppicev1.ConsumerStatus_CONSUMER_STATUS_NONE, s.at
		return is
	}
	is.Process = info.Config.Metadata[bus.MetaProcess]
	is.Pending, is.Unacknowledged = info.NumPending, uint64(info.NumAckPending)
	is.done, is.delivered = info.AckFloor.Stream, info.Delivered.Stream
	signed := later(s.at, info.AckFloor.Last)
	given := later(time.Time{}, info.Delivered.Last)
	is.pulls = o.pulls(durable, info.NumWaiting, now) || info.PushBound
	is.Live = is.pulls || within(now, signed, LiveFor) || within(now, given, bus.CallAckWait)
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

// Status returns the state of the call on a subject, which the consumer in the state of receives. It asks the
// NATS server for the call, and for parked work if there is no call.
func (o *Observer) Status(ctx context.Context, subject string, of *State) (*coppicev1.CallStatus, error) {
	is := of.unread()
	m, err := o.last(ctx, bus.FinalizeStream(o.realm), subject)
	if err != nil {
		return nil, err
	}
	if m == nil {
		parked, err := o.last(ctx, bus.ParkedStream(o.realm), bus.ParkedSubject(o.realm, subject, 0))
		if err != nil {
			return nil, err
		}
		if parked != nil {
			setParked(is, parked)
			return is, nil
		}
	} else {
		is.Call = m.Sequence
		// An acknowledged call is removed from the stream, and a consumer is given its calls in order.
		is.Delivered = of.Unacknowledged > 0 && m.Sequence > of.done && m.Sequence <= of.delivered
	}
	o.setCall(is, of.durable)
	is.Unasked = is.GetState() == coppicev1.CallState_CALL_STATE_QUEUED && !of.pulls && of.Status == coppicev1.ConsumerStatus_CONSUMER_STATUS_IDLE
	return is, nil
}

// setCall sets what was observed of a call, and its state unless that follows from the consumer's.
func (o *Observer) setCall(is *coppicev1.CallStatus, durable string) {
	c := o.Call(durable, is.GetCall())
	is.Attempts, is.Failures, is.LastError = uint32(c.Attempts), uint32(c.Failures()), c.Error
	is.LastErrorTime = Micro(c.Failed)
	now := o.now()
	working := !c.Since.IsZero() && within(now, c.at, bus.CallAckWait)
	switch {
	case working:
		is.WorkingSince = Micro(c.Since)
	case c.Retry.After(now):
		is.NextRetry = Micro(c.Retry)
	}
	switch {
	case is.GetState() != coppicev1.CallState_CALL_STATE_UNSPECIFIED:
	case is.GetDelivered() && c.Since.IsZero() && c.Failed.After(c.returned):
		is.State = coppicev1.CallState_CALL_STATE_FAILED
	case is.GetDelivered() && (working || c.at.IsZero()): // or it was delivered a moment ago
		is.State = coppicev1.CallState_CALL_STATE_WORKING
	default: // also what was handed back, or left behind by a program that has died: it is delivered again
		is.State = coppicev1.CallState_CALL_STATE_QUEUED
	}
}

// setParked sets the state of a call that is parked.
func setParked(is *coppicev1.CallStatus, m *jetstream.RawStreamMsg) {
	is.State, is.Parked = coppicev1.CallState_CALL_STATE_PARKED, m.Sequence
	var p coppicev1.Parked
	if err := proto.Unmarshal(m.Data, &p); err != nil {
		is.LastError = fmt.Sprintf("this is not parked work: %v", err)
		return
	}
	is.Attempts, is.Failures, is.LastErrorTime = p.GetAttempts(), p.GetAttempts(), p.GetTime()
	text := p.GetError() // the program that parks the call writes it
	is.LastError = strings.ToValidUTF8(text[:min(len(text), maxError)], "")
}

// last returns the message on a subject of a stream, nil if there is none.
func (o *Observer) last(ctx context.Context, stream, subject string) (*jetstream.RawStreamMsg, error) {
	s, err := o.stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	m, err := s.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	return m, err
}

// stream returns a handle of a stream, which stays valid if the stream is created again.
func (o *Observer) stream(ctx context.Context, name string) (jetstream.Stream, error) {
	o.mu.Lock()
	s := o.streams[name]
	o.mu.Unlock()
	if s != nil {
		return s, nil
	}
	s, err := o.js.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", name, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.streams[name] = s
	return s, nil
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

// NamesOf returns the subject and the durable consumer of a call in a realm.
func NamesOf(realm string, c *coppicev1.CallOf) (subject, durable string) {
	group, plural := lifecycle.SplitResource(c.GetResource())
	if c.GetFinalizer() == "" {
		return bus.Terminate{Realm: realm, Group: group, Plural: plural, UID: c.GetUid()}.Subject(), bus.AgentDurable(group, plural)
	}
	return bus.Finalize{Realm: realm, Group: group, Plural: plural, UID: c.GetUid(), Finalizer: c.GetFinalizer()}.Subject(), bus.FinalizerDurable(c.GetFinalizer())
}
