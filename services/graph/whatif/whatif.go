package whatif

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/memrealm"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// Limits of a log. Both realms are in memory, with all events.
const (
	MaxEvents = 1_000_000
	MaxBytes  = 512 << 20 // of uncompressed commits
)

// ErrTooLarge is wrapped by the error of Run for a log beyond the limits.
var ErrTooLarge = errors.New("the log is too large for a what-if")

// ErrPartial is wrapped by the error of Run for a log that does not begin with commit 1.
var ErrPartial = errors.New("a what-if needs the log from its first commit on")

// Run replays a recorded log under other settings. It calls progress with the sequence of each
// commit. The error is one of segment.Scanner or of ctx, wraps ErrTooLarge, ErrPartial or ErrSettings,
// or names a commit that cannot be replayed.
func Run(ctx context.Context, in io.Reader, s *Settings, progress func(sequence uint64)) (*Report, error) {
	r, err := run(ctx, in, s, MaxEvents, MaxBytes, progress)
	if err != nil {
		return nil, err
	}
	return r.report(), nil
}

func run(ctx context.Context, in io.Reader, s *Settings, events, size uint64, progress func(sequence uint64)) (*replay, error) {
	r := &replay{settings: s, log: newSide(), other: newSide(), used: map[string]bool{}}
	begun, bytesRead, eventsRead := false, uint64(0), uint64(0)
	for c, err := range segment.NewScanner(in).Commits() {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		if !begun && c.Sequence > 1 {
			return nil, fmt.Errorf("%w: it begins with commit %d", ErrPartial, c.Sequence)
		}
		begun = true
		bytesRead += uint64(len(c.Content))
		if eventsRead += c.Revision - (c.FirstRevision - 1); eventsRead > events || bytesRead > size {
			return nil, fmt.Errorf("%w: commit %d exceeds %d events or %d MiB, of which a what-if keeps all in memory; record the log up to an earlier revision with --to", ErrTooLarge, c.Sequence, events, size>>20)
		}
		if err := r.commit(bytes.Clone(c.Content)); err != nil {
			return nil, fmt.Errorf("commit %d: %w", c.Sequence, err)
		}
		progress(c.Sequence)
	}
	for name := range s.kinds {
		if !r.used[name] {
			return nil, fmt.Errorf("the log registers no kind %s: %w", name, ErrSettings)
		}
	}
	r.log.time = r.log.realm.Clock
	r.log.actor = ""
	r.log.realm.SettleActive()
	return r, nil
}

// replay is the state of a Run.
type replay struct {
	settings *Settings
	log      *side // as recorded
	other    *side // under the other settings
	dropped  []Dropped
	used     map[string]bool // kinds of the settings that the log registers
}

// side is one of the two realms, with what has happened in it.
type side struct {
	realm  *memrealm.Realm
	events map[uint64]happened // by revision
	last   map[uid.UID]uint64  // the last revision of each object
	// time and actor of the events that are applied now; no actor for the collector.
	time  lifecycle.Time
	actor string
}

// happened is an event that was applied.
type happened struct {
	uid    uid.UID
	typ    lifecycle.EventType
	reason coppicev1.Reason
	cause  uint64
	time   lifecycle.Time
	actor  string
	at     lifecycle.Coordinates
}

func newSide() *side {
	s := &side{realm: memrealm.NewEmpty(0), events: map[uint64]happened{}, last: map[uid.UID]uint64{}}
	s.realm.OnChange = func(e *lifecycle.Event, before, after lifecycle.Object) {
		n := after.Node
		if n == nil {
			n = before.Node
		}
		s.events[s.realm.Revision] = happened{e.UID, e.Type, e.Reason, e.Cause, s.time, s.actor, n.Coordinates()}
		s.last[e.UID] = s.realm.Revision
	}
	return s
}

// commit replays a commit.
func (r *replay) commit(content []byte) error {
	c, err := eventlog.Decode(content)
	if err != nil {
		return err
	}
	for _, s := range []*side{r.log, r.other} {
		s.realm.Clock, s.time = c.Time, c.Time
		for _, session := range c.Sessions {
			s.realm.TouchSession(session.ID, session.Closed)
		}
		for _, change := range c.Realm {
			s.realm.ChangeRealm(change)
		}
	}
	if err := c.Each(func(e *eventlog.Entry) error {
		event := *e.Event
		if e.Body != nil && event.Object.Node != nil {
			event.Object.Body = &coppicev1.Body{}
			if err := proto.Unmarshal(e.Body, event.Object.Body); err != nil {
				return err
			}
		}
		actor := ""
		if e.Command < len(c.Commands) {
			actor = c.Commands[e.Command].Actor
		}
		return r.event(&event, e.Revision, actor)
	}); err != nil {
		return err
	}
	if c.Sequence == 1 {
		if err := r.begin(); err != nil {
			return err
		}
	}
	r.other.actor = ""
	r.other.realm.SettleActive()
	return nil
}

// begin sets the realm settings when the built-in kinds are there.
func (r *replay) begin() error {
	if r.settings.realm == nil {
		return nil
	}
	o := r.other
	at := lifecycle.Key{Kind: o.realm.Kinds().Of(lifecycle.Group, "Realm")}
	if at.Kind == nil {
		return errors.New("the first commit of the log does not register the kind Realm")
	}
	ctx := o.realm.Context()
	ctx.NewUID = func() uid.UID { return settingsUID }
	out, err := lifecycle.Create(ctx, at, r.settings.realm)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSettings, err)
	}
	o.realm.Apply(out.Events)
	return nil
}

// settingsUID is the uid of the realm settings that replace those of the log.
var settingsUID = uid.MustParse("what-if")

// event applies an event of the log to the realm as recorded. In the other realm it decides the
// request that explains the event, and applies the events that result.
func (r *replay) event(e *lifecycle.Event, revision uint64, actor string) error {
	before := lifecycle.Object{Node: r.log.realm.Node(e.UID)}
	if before.Node == nil && e.Type != lifecycle.ObjectCreated {
		return fmt.Errorf("revision %d changes an object that does not exist", revision)
	}
	if before.Node != nil {
		before.Body = r.log.realm.Body(before.Node)
	}
	request := r.request(e, before)
	r.log.actor = actor
	r.log.realm.Revision = revision - 1
	r.log.realm.Apply([]lifecycle.Event{*e})
	if request == nil {
		return nil
	}
	r.other.actor = actor
	events, refused := request()
	if refused != nil {
		h := r.log.events[revision]
		r.dropped = append(r.dropped, Dropped{
			Revision: revision, Event: eventName(e.Type), Object: objectOf(r.log.realm.Kinds(), e.UID, h.at), Actor: cmp.Or(actor, "unknown"), Why: refused.Error(),
		})
	}
	r.other.realm.Apply(events)
	return nil
}
