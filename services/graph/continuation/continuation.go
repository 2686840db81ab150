// Package continuation begins a realm that continues the log of another one: a realm that is restored
// from an archive, or replayed from a recorded log.
//
//	other realm   commit 1 ── … ── commit S
//	                                  ┊ origin: realm id, S; checksum of commit S
//	new realm                      commit S+1 ── commit S+2 ── …      position P+1, P+2, … of its stream
//	                                  │
//	archive                        snapshot of commit S+1
//
// The new realm has the state of the other one: the same objects, uids, revisions and causes. It
// has a realm id and a key of its own, and is paused until an operator resumes it
// ([lifecycle.Realm]). Its revisions continue higher ([writer.RestoredAhead]), since the other realm may have had more commits: a
// client that knows their revisions must not take new changes for them. Its stream begins behind position P of commit S, and does not have the commits
// up to S. Replicas therefore start from the snapshot, as those of a realm whose log was cut.
package continuation

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
	"github.com/coppice-gc/coppice/services/graph/archivestate"
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
	// Temp is the directory for the snapshot before it is stored; empty for that of temporary
	// files.
	Temp string
	// By names this process for operators.
	By string
}

// Begun describes a realm that was begun.
type Begun struct {
	RealmID  [16]byte
	Origin   lifecycle.Origin
	Sequence uint64 // of its first commit
	Revision uint64 // of the state that it continues
	// Continues is the revision of its first change.
	Continues uint64
	Objects   int
}

// ErrExists is wrapped by the error of Begin for a realm that has a log.
var ErrExists = errors.New("the realm has a log already")

// ErrOutcomeUnknown is wrapped by the error of Begin if it is unknown whether the realm was begun.
var ErrOutcomeUnknown = eventlog.ErrOutcomeUnknown

// CheckNew returns an error that wraps ErrExists if a realm has a log with messages. nc is a
// connection under the role bus.RoleGraph.
func CheckNew(ctx context.Context, nc *nats.Conn, realm string) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, bus.LogStream(realm))
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("realm %s: %w", realm, err)
	case bus.HadMessages(stream.CachedInfo()):
		return existsError(realm)
	}
	return nil
}

// OriginOf returns which commit of which realm a realm with a log continues; zero if it continues none, or if
// its first commit cannot be read. exists is false for a realm that Begin can begin. nc is a connection under the role bus.RoleGraph.
func OriginOf(ctx context.Context, nc *nats.Conn, realm string, secrets secret.Secrets) (o lifecycle.Origin, exists bool, err error) {
	if err := CheckNew(ctx, nc, realm); err == nil || !errors.Is(err, ErrExists) {
		return o, false, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return o, true, err
	}
	log, err := eventlog.OpenExisting(ctx, js, realm, eventlog.NewKeys(secrets, realm))
	if err != nil {
		return o, true, err
	}
	_, first, err := log.Last(ctx)
	if err != nil {
		return o, true, err
	}
	message, err := log.Get(ctx, first)
	if errors.Is(err, eventlog.ErrNotFound) || errors.Is(err, eventlog.ErrForeign) {
		return o, true, nil
	}
	if err != nil {
		return o, true, err
	}
	c, err := eventlog.Decode(message)
	if err != nil {
		return o, true, nil //nolint:nilerr // it is no commit
	}
	for _, change := range c.Realm {
		if change.Origin != (lifecycle.Origin{}) {
			o = change.Origin
		}
	}
	return o, true, nil
}

func existsError(realm string) error {
	return fmt.Errorf("realm %s: %w: its stream %s has messages, or had some; choose another name", realm, ErrExists, bus.LogStream(realm))
}

// Begin begins a realm with the state s of another one. It changes s to the state of the new
// realm, also if it fails afterwards. The snapshot is in the archive before the realm exists: after
// a failure there is either the realm, or no realm and possibly a snapshot of an id that is not
// used. If the outcome of the append is unknown, the error wraps ErrOutcomeUnknown.
func Begin(ctx context.Context, s *state.State, c Config) (b Begun, err error) {
	js, err := jetstream.New(c.Conn)
	if err != nil {
		return b, err
	}
	if err := CheckNew(ctx, c.Conn, c.Realm); err != nil {
		return b, err
	}
	before := s.Checkpoint()
	b.Origin.Sequence = before.GetSequence()
	copy(b.Origin.RealmID[:], before.GetRealmId())
	keys := eventlog.NewKeys(c.Secrets, c.Realm)
	first := &capture{}
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
	b.Sequence, b.Revision, b.Continues, b.Objects = cp.GetSequence(), before.GetRevision(), cp.GetRevision()+1, totals.Objects
	_, err = archivestate.PutSnapshot(ctx, c.Archive, snap, c.Temp, c.By, time.Now())
	if err == nil {
		err = begin(ctx, js, c, keys, before.GetPosition(), first)
	}
	if err != nil && !errors.Is(err, ErrOutcomeUnknown) {
		err = errors.Join(err, discard(c.Archive, archive.VerifiedName(b.RealmID, b.Sequence)), discard(c.Archive, archive.SnapshotName(b.RealmID, b.Sequence)))
	}
	return b, err
}

// begin creates the stream of the log behind a position, and appends the first commit.
func begin(ctx context.Context, js jetstream.JetStream, c Config, keys *eventlog.Keys, position uint64, first *capture) error {
	log, err := eventlog.Begin(ctx, js, c.Realm, max(c.Replicas, 1), position+1, keys)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return existsError(c.Realm)
	}
	if err != nil {
		return err
	}
	at, err := log.Append(ctx, position, first.id, first.commit)
	switch {
	case err == nil && at == position+1, errors.Is(err, ErrOutcomeUnknown):
	case err == nil, errors.Is(err, eventlog.ErrFenced):
		err = fmt.Errorf("realm %s: %w: a graph service has begun it meanwhile; stop it, delete the stream %s, and try again", c.Realm, ErrExists, bus.LogStream(c.Realm))
	default:
		err = errors.Join(err, bus.DiscardLog(context.WithoutCancel(ctx), js, c.Realm))
	}
	return err
}

// discard deletes an entry of an archive that nothing names. It names the entry if that fails.
func discard(store archive.Store, name archive.Name) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := store.Delete(ctx, name.String()); err != nil {
		return fmt.Errorf("archive %s: %s is left, which is not used: %w", store, name, err)
	}
	return nil
}

// decide has a writer decide the first commit of the realm, and apply it to the state.
func decide(ctx context.Context, s *state.State, c Config, o *lifecycle.Origin, keys *eventlog.Keys, into *capture) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ahead := writer.RestoredAhead(lifecycle.Time(s.Checkpoint().GetTime()), lifecycle.TimeOf(time.Now()))
	return writer.New(writer.Config{
		Realm: c.Realm, State: s, Log: into, Lease: held{}, NewestKey: keys.Newest, Origin: o, Ahead: ahead, MaxPayload: int(c.Conn.MaxPayload()), Ready: stop,
	}).Run(ctx)
}

// capture is a writer.Log that keeps the only commit that is sent to it.
type capture struct {
	id     [16]byte
	commit []byte
}

// Send implements writer.Log.
func (l *capture) Send(expected uint64, id [16]byte, commit []byte) func(context.Context) (uint64, error) {
	l.id, l.commit = id, bytes.Clone(commit)
	return func(context.Context) (uint64, error) { return expected + 1, nil }
}

// Get implements writer.Log.
func (*capture) Get(context.Context, uint64) ([]byte, error) { return nil, eventlog.ErrCut }

// Created implements writer.Log.
func (*capture) Created() int64 { return 0 }

// held is a lease of a writer that no other can compete with: its log is in memory.
type held struct{}

// Holds implements writer.Lease.
func (held) Holds() bool { return true }

// Lost implements writer.Lease.
func (held) Lost() <-chan struct{} { return nil }
