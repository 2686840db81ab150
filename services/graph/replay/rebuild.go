package replay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/secret"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/tail"
)

// Rebuilt says what Rebuild has folded.
type Rebuilt struct {
	Commits, Events, Revision uint64
}

// ErrNoRealm is returned by Rebuild for a realm without a log.
var ErrNoRealm = errors.New("there is no such realm: it has no log")

// Rebuild replaces the state of a realm in the directory of a graph service, which must
// not be running, by a replay of the log. It replays into another directory, and replaces the
// state only when the replay is complete: if the log cannot be read to its end, the state stays
// as it was. Rebuild writes nothing to the log. secrets are those of the installation.
//
// The error wraps ErrNoRealm if the realm has no log, state.ErrLocked if the state is in use, a
// MismatchError if the log has lost commits that the graph service has seen, a CutError if
// the stream does not have the first commit of the realm, or an eventlog.BrokenError if it lacks
// others. In the last two cases use archivestate.Rebuild, which reads what is missing from the archive.
func Rebuild(ctx context.Context, nc *nats.Conn, realm, dir string, secrets secret.Secrets) (r Rebuilt, err error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return r, err
	}
	// eventlog.Open would create a log for a misspelt name.
	if _, err := js.Stream(ctx, bus.LogStream(realm)); err != nil {
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			err = ErrNoRealm
		}
		return r, fmt.Errorf("realm %s: %w", realm, err)
	}
	log, err := eventlog.OpenExisting(ctx, js, realm, eventlog.NewKeys(secrets, realm))
	if err != nil {
		return r, err
	}
	last, first, err := log.Last(ctx)
	if err != nil {
		return r, err
	}
	if first > 1 {
		return r, &CutError{Realm: realm, First: first}
	}
	if err := checkBeginning(ctx, log, first, last); err != nil {
		return r, err
	}
	mark, err := tail.Read(tail.File(dir, realm))
	if err != nil && !errors.Is(err, tail.ErrDamaged) {
		return r, err
	}
	if err := CheckTail(ctx, mark, log, realm, filepath.Join(dir, realm), false); err != nil {
		return r, err
	}
	return Replace(ctx, log, dir, state.Config{})
}

// Replace is Rebuild for a log that is open, and that was compared with what the graph
// service knows of it.
func Replace(ctx context.Context, log Log, dir string, c state.Config) (r Rebuilt, err error) {
	last, _, err := log.Last(ctx)
	if err != nil {
		return r, err
	}
	err = ReplaceBy(log.Realm(), dir, func(rebuilt string) (err error) {
		r, err = rebuild(ctx, rebuilt, c, log, last)
		return err
	})
	return r, err
}

// ReplaceBy replaces the state of a realm in the directory of a graph service by the one that a function
// builds in another directory, which does not exist before, and leaves closed. If that fails, the state
// stays as it was. The error wraps state.ErrLocked if the state is in use.
func ReplaceBy(realm, dir string, build func(dir string) error) error {
	old, rebuilt := filepath.Join(dir, realm), filepath.Join(dir, ".rebuild-"+realm)
	if err := errors.Join(state.CheckUnlocked(old), state.Remove(rebuilt), os.RemoveAll(rebuilt)); err != nil {
		return err
	}
	if err := build(rebuilt); err != nil {
		err = fmt.Errorf("%w; the state in %s is unchanged", err, old)
		return errors.Join(err, os.RemoveAll(rebuilt))
	}
	return state.Replace(old, rebuilt)
}

// rebuild replays the log up to a position into an empty state in a directory.
func rebuild(ctx context.Context, dir string, c state.Config, log Log, last uint64) (r Rebuilt, err error) {
	s, err := state.Open(dir, c)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	f := NewFolder(s, log.Created(), log.Keys())
	if err := f.FoldFromEmpty(ctx, log, last); err != nil {
		return r, fmt.Errorf("realm %s: %w", log.Realm(), err)
	}
	return Rebuilt{Commits: f.chain.Sequence, Events: f.total, Revision: f.chain.Revision}, s.Sync()
}
