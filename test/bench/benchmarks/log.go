package benchmarks

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/dial"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/secret"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// storedLog is the log of a realm whose services do not run.
type storedLog struct {
	*eventlog.Log
	nc      *nats.Conn
	js      jetstream.JetStream
	secrets secret.Secrets
}

// withLog opens the log that services have stored in a directory, and closes it after do.
func withLog(ctx context.Context, dir string, do func(*storedLog) error) (err error) {
	server, err := natsd.Start(natsd.Config{Dir: filepath.Join(dir, "nats"), Roles: bus.Roles(bus.DefaultRealm)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Shutdown()) }()
	l := &storedLog{}
	if l.nc, err = dial.Service(ctx, server.URL(), "coppice-bench", slog.New(slog.DiscardHandler), server.Options(bus.RoleGraph)...); err != nil {
		return err
	}
	defer l.nc.Close()
	if l.js, err = jetstream.New(l.nc); err != nil {
		return err
	}
	if l.secrets, err = secret.Load(filepath.Join(dir, secret.FileName)); err != nil {
		return err
	}
	if l.Log, err = eventlog.OpenExisting(ctx, l.js, bus.DefaultRealm, eventlog.NewKeys(l.secrets, bus.DefaultRealm)); err != nil {
		return err
	}
	return do(l)
}
