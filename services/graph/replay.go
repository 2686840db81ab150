package graph

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

// Replayed is what Replay has done.
type Replayed struct {
	Commits, Events, Revision uint64
}

// ErrNoRealm is returned by Replay for a realm without a log.
var ErrNoRealm = errors.New("there is no such realm: it has no log")

// Replay throws away the state of a realm in the directory of a graph service,
// which must not be running, and folds the log into an empty one. secrets are those
// of the installation. It writes nothing to the log.
func Replay(ctx context.Context, nc *nats.Conn, realm, dir string, secrets secret.Secrets) (r Replayed, err error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return r, err
	}
	// To open a log creates it; here that would only hide a misspelt name.
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
	f := newFolder(s, log.Created(), log.Keys())
	if err := f.foldAnew(ctx, log, last); err != nil {
		return r, fmt.Errorf("realm %s: %w", realm, err)
	}
	return Replayed{Commits: last, Events: f.total, Revision: f.chain.Revision}, s.Sync()
}
