package stores

import (
	"context"
	"fmt"
	"io"
	"iter"
	"sync/atomic"

	"github.com/coppice-gc/coppice/internal/archive"
)

// Lazy returns an archive that is created, or opened, when it is used for the first time. While
// that fails, each use of it fails and the next tries again: a service starts
// before its archive can be reached.
func (o Opener) Lazy(l archive.Location) archive.Store {
	return archive.Limited(&lazy{
		location: l, opening: make(chan struct{}, 1), create: func(ctx context.Context) (archive.Store, error) { return o.create(ctx, l) },
	}, archive.Stall)
}

type lazy struct {
	location archive.Location
	create   func(context.Context) (archive.Store, error)

	opening chan struct{}                 // has an element while a call opens the archive
	store   atomic.Pointer[archive.Store] // nil until it is open
}

func (s *lazy) open(ctx context.Context) (archive.Store, error) {
	if store := s.store.Load(); store != nil {
		return *store, nil
	}
	select {
	case s.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("archive %s: it does not answer: %w", s.location, ctx.Err())
	}
	defer func() { <-s.opening }()
	if store := s.store.Load(); store != nil {
		return *store, nil
	}
	store, err := s.create(ctx)
	if err != nil {
		return nil, err
	}
	s.store.Store(&store)
	return store, nil
}

// Put implements archive.Store.
func (s *lazy) Put(ctx context.Context, name string, content io.Reader, size int64) error {
	store, err := s.open(ctx)
	if err != nil {
		return err
	}
	return store.Put(ctx, name, content, size)
}

// Open implements archive.Store.
func (s *lazy) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	store, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	return store.Open(ctx, name, offset, length)
}

// List implements archive.Store.
func (s *lazy) List(ctx context.Context, prefix string) iter.Seq2[archive.Entry, error] {
	return func(yield func(archive.Entry, error) bool) {
		store, err := s.open(ctx)
		if err != nil {
			yield(archive.Entry{}, err)
			return
		}
		store.List(ctx, prefix)(yield)
	}
}

// Delete implements archive.Store.
func (s *lazy) Delete(ctx context.Context, name string) error {
	store, err := s.open(ctx)
	if err != nil {
		return err
	}
	return store.Delete(ctx, name)
}

// String implements archive.Store.
func (s *lazy) String() string { return s.location.String() }
