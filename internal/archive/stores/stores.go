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

// Opener opens archives. Their calls are limited: see archive.Limited.
type Opener struct {
	// JetStream is called for an archive in an object store. It may be nil if there is no
	// connection to NATS.
	JetStream func(context.Context) (jetstream.JetStream, error)
	// Replicas is the number of replicas of an object store that Create creates.
	Replicas int
}

// Open opens an archive that exists.
func (o Opener) Open(ctx context.Context, l archive.Location) (archive.Store, error) {
	return limited(o.open(ctx, l))
}

// Create opens an archive, and creates its directory or object store if there is none. A
// bucket of S3 must exist: its owner configures encryption, access and life cycle.
func (o Opener) Create(ctx context.Context, l archive.Location) (archive.Store, error) {
	return limited(o.create(ctx, l))
}

func limited(store archive.Store, err error) (archive.Store, error) {
	if err != nil {
		return nil, err
	}
	return archive.Limited(store, archive.Stall), nil
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
