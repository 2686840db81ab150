package replay

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/secret"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Rebuilt is what Rebuild has folded.
type Rebuilt struct {
	Commits, Events, Revision uint64
}

// ErrNoRealm is returned by Rebuild for a realm without a log.
var ErrNoRealm = errors.New("there is no such realm: it has no log")

// Rebuild deletes the state of a realm in the directory of a graph service, which must
// not be running, and replays the log into an empty one. secrets are those of the
// installation. It writes nothing to the log.
func Rebuild(ctx context.Context, nc *nats.Conn, realm, dir string, secrets secret.Secrets) (r Rebuilt, err error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return r, err
	}
	// eventlog.Open would create the log, and hide a misspelt name.
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
	last, _, err := log.Last(ctx)
	if err != nil {
		return r, err
	}
	if err := checkSecret(ctx, log, last); err != nil {
		return r, fmt.Errorf("realm %s: %w", realm, err)
	}
	dir = filepath.Join(dir, realm)
	if err := state.Remove(dir); err != nil {
		return r, err
	}
	s, err := state.Open(dir, state.Config{})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	f := NewFolder(s, log.Created(), log.Keys())
	if err := f.FoldFromEmpty(ctx, log, last); err != nil {
		return r, fmt.Errorf("realm %s: %w", realm, err)
	}
	return Rebuilt{Commits: last, Events: f.total, Revision: f.chain.Revision}, s.Sync()
}
