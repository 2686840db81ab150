// Package origin begins a realm that continues the log of another one: a realm that is restored
// from an archive, or replayed from a recorded log.
//
//	other realm   commit 1 ── … ── commit S
//	                                  ┊ origin: realm id, S; checksum of commit S
//	new realm                      commit S+1 ── commit S+2 ── …      position 1, 2, … of its stream
//	                                  │
//	archive                        snapshot of commit S+1
//
// The new realm has the state of the other one: the same objects, uids, revisions and causes. It
// has a realm id and a key of its own, and is paused until an operator resumes it
// (lifecycle.Realm). Its stream does not have the commits up to S. Replicas therefore start from
// the snapshot, as those of a realm whose log was truncated.
package origin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/secret"
	"github.com/coppice-gc/coppice/services/graph/bootstrap"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// Config says where a realm begins.
type Config struct {
	// Conn is a connection under the role bus.RoleGraph.
	Conn *nats.Conn
	// Realm is the name of the new realm, whose stream must not exist or be empty.
	Realm string
	// Replicas is the number of servers that store the stream; 1 if zero.
	Replicas int
	// Secrets are those of the installation.
	Secrets secret.Secrets
	// Archive is the archive of the graph services that will serve the realm.
	Archive archive.Store
	// By names this process for operators.
	By string
}

// Begun describes a realm that was begun.
type Begun struct {
	RealmID  [16]byte
	Origin   lifecycle.Origin
	Sequence uint64 // of its first commit
	Revision uint64
	Objects  int
}

// ErrExists is wrapped by the error of Begin for a realm that has a log.
var ErrExists = errors.New("the realm has a log already")

// CheckNew returns an error that wraps ErrExists if a realm has a log with messages. nc is a
// connection under the role bus.RoleGraph.
func CheckNew(ctx context.Context, nc *nats.Conn, realm string) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, bus.LogStream(realm))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("realm %s: %w", realm, err)
	}
	return checkEmpty(realm, stream.CachedInfo().State.LastSeq)
}

func checkEmpty(realm string, last uint64) error {
	if last == 0 {
		return nil
	}
	return fmt.Errorf("realm %s: %w: its stream %s has, or had, %d messages; choose another name", realm, ErrExists, bus.LogStream(realm), last)
}

// Begin begins a realm with the state of another one, which it changes to that of the new
// realm. The snapshot is in the archive before the realm exists: after a failure there is either
// the realm, or no realm and possibly a snapshot of an id that is not used.
// If the outcome of the append is unknown, the error wraps eventlog.ErrUnsettled.
func Begin(ctx context.Context, s *state.State, c Config) (b Begun, err error) {
	js, err := jetstream.New(c.Conn)
	if err != nil {
		return b, err
	}
	keys := eventlog.NewKeys(c.Secrets, c.Realm)
	log, err := eventlog.Open(ctx, js, c.Realm, max(c.Replicas, 1), keys)
	if err != nil {
		return b, err
	}
	last, _, err := log.Last(ctx)
	if err != nil {
		return b, err
	}
	if err := checkEmpty(c.Realm, last); err != nil {
		return b, err
	}
	before := s.Checkpoint()
	b.Origin.Sequence = before.GetSequence()
	copy(b.Origin.RealmID[:], before.GetRealmId())
	if err := s.LeaveStream(); err != nil {
		return b, err
	}
	first := &capture{created: log.Created()}
	if err := decide(ctx, s, c, &b.Origin, keys, first); err != nil {
		return b, err
	}
	snap := s.Snapshot()
	defer func() { err = errors.Join(err, snap.Close()) }()
	totals, err := snap.Totals()
	if err != nil {
		return b, err
	}
	cp := snap.Checkpoint()
	copy(b.RealmID[:], cp.GetRealmId())
	b.Sequence, b.Revision, b.Objects = cp.GetSequence(), cp.GetRevision(), totals.Objects
	if _, err := bootstrap.PutSnapshot(ctx, c.Archive, snap, c.By, time.Now()); err != nil {
		return b, err
	}
	position, err := log.Append(ctx, 0, first.id, first.commit)
	if errors.Is(err, eventlog.ErrFenced) || err == nil && position != 1 {
		err = fmt.Errorf("realm %s: %w: a graph service has begun it meanwhile; stop it, delete the stream %s, and try again", c.Realm, ErrExists, bus.LogStream(c.Realm))
	}
	return b, err
}

// decide has a writer decide the first commit of the realm, and apply it to the state.
func decide(ctx context.Context, s *state.State, c Config, o *lifecycle.Origin, keys *eventlog.Keys, into *capture) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	return writer.New(writer.Config{
		Realm: c.Realm, State: s, Log: into, Lease: held{}, NewestKey: keys.Newest, Origin: o, MaxPayload: int(c.Conn.MaxPayload()), Ready: stop,
	}).Run(ctx)
}

// capture is a writer.Log that keeps the only commit that is sent to it.
type capture struct {
	id      [16]byte
	commit  []byte
	created int64
}

// Send implements writer.Log.
func (l *capture) Send(expected uint64, id [16]byte, commit []byte) func(context.Context) (uint64, error) {
	l.id, l.commit = id, bytes.Clone(commit)
	return func(context.Context) (uint64, error) { return expected + 1, nil }
}

// Get implements writer.Log.
func (*capture) Get(context.Context, uint64) ([]byte, error) { return nil, eventlog.ErrCut }

// Created implements writer.Log.
func (l *capture) Created() int64 { return l.created }

// held is a lease of a writer that no other can compete with: its log is in memory.
type held struct{}

// Holds implements writer.Lease.
func (held) Holds() bool { return true }

// Lost implements writer.Lease.
func (held) Lost() <-chan struct{} { return nil }
