// Package stores opens archives by their URLs.
package stores

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/dirstore"
	"github.com/coppice-gc/coppice/internal/archive/natsstore"
	"github.com/coppice-gc/coppice/internal/archive/s3store"
)

// Opener opens archives, each as an archive.Limited.
type Opener struct {
	// JetStream is called for an archive in an object store. It may be nil if there is no
	// connection to NATS.
	JetStream func(context.Context) (jetstream.JetStream, error)
	// Replicas is the number of replicas of an object store that Create creates.
	Replicas int
}

// Open opens an archive that exists.
func (o Opener) Open(ctx context.Context, l archive.Location) (archive.Store, error) {
	return opened(ctx, l, o.open)
}

// Create opens an archive, and creates its directory or object store if there is none. A
// bucket of S3 must exist: its owner configures encryption, access and life cycle.
func (o Opener) Create(ctx context.Context, l archive.Location) (archive.Store, error) {
	return opened(ctx, l, o.create)
}

// Lazy returns an archive that is created, or opened, when it is used for the first time. While
// that fails, each use of it fails and the next tries again: a service starts
// before its archive can be reached.
func (o Opener) Lazy(l archive.Location) archive.Store { return lazy(l, o.create) }

func lazy(l archive.Location, open func(context.Context, archive.Location) (archive.Store, error)) *archive.Limited {
	return archive.NewLimited(l.String(), archive.Stall, func(ctx context.Context) (archive.Store, error) { return open(ctx, l) })
}

func opened(ctx context.Context, l archive.Location, open func(context.Context, archive.Location) (archive.Store, error)) (archive.Store, error) {
	s := lazy(l, open)
	if err := s.Opened(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func (o Opener) open(ctx context.Context, l archive.Location) (archive.Store, error) {
	switch l.Scheme {
	case "file":
		return dirstore.Open(l.Dir)
	case "nats":
		js, err := o.connect(ctx, l)
		if err != nil {
			return nil, err
		}
		return natsstore.Open(ctx, js, l.Bucket)
	case "s3":
		return s3store.Open(ctx, l)
	}
	return nil, fmt.Errorf("archive %s: unknown scheme %q", l, l.Scheme)
}

func (o Opener) create(ctx context.Context, l archive.Location) (archive.Store, error) {
	switch l.Scheme {
	case "file":
		return dirstore.Create(l.Dir)
	case "nats":
		js, err := o.connect(ctx, l)
		if err != nil {
			return nil, err
		}
		return natsstore.Create(ctx, js, l.Bucket, max(o.Replicas, 1))
	}
	return o.open(ctx, l)
}

func (o Opener) connect(ctx context.Context, l archive.Location) (jetstream.JetStream, error) {
	if o.JetStream == nil {
		return nil, fmt.Errorf("archive %s: there is no connection to NATS", l)
	}
	js, err := o.JetStream(ctx)
	if err != nil {
		return nil, fmt.Errorf("archive %s: %w", l, err)
	}
	return js, nil
}
