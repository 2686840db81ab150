// Package natsstore implements [archive.Store] in a JetStream object store.
//
// Entries are objects as NATS defines them (ADR-20), so that `nats object` reads them too. The
// Go client of NATS replaces objects and reads them from the beginning; this
// package puts an object only if its name is free (put.go), and reads ranges
// (read.go): an object's metadata names the sequences of its chunks.
package natsstore

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/archive"
)

// Store is an archive in an object store.
type Store struct {
	js      jetstream.JetStream
	async   jetstream.JetStream // publishes chunks
	bucket  string
	objects jetstream.ObjectStore
	stream  jetstream.Stream
}

var _ archive.Store = (*Store)(nil)

// Open opens the archive in an object store that exists.
func Open(ctx context.Context, js jetstream.JetStream, bucket string) (*Store, error) {
	objects, err := js.ObjectStore(ctx, bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, fmt.Errorf("archive nats://%s: there is no object store of this name in the account: create it, for instance with `nats object add %s`", bucket, bucket)
	}
	return open(ctx, js, bucket, objects, err)
}

// Create opens the archive in an object store, and creates it with a number of replicas if it does not
// exist.
func Create(ctx context.Context, js jetstream.JetStream, bucket string, replicas int) (*Store, error) {
	objects, err := js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
		Bucket: bucket, Description: "archive of Coppice", Replicas: replicas,
	})
	if errors.Is(err, jetstream.ErrBucketExists) {
		objects, err = js.ObjectStore(ctx, bucket)
	}
	return open(ctx, js, bucket, objects, err)
}

func open(ctx context.Context, js jetstream.JetStream, bucket string, objects jetstream.ObjectStore, err error) (*Store, error) {
	s := &Store{js: js, bucket: bucket, objects: objects}
	if err == nil {
		s.stream, err = js.Stream(ctx, streamOf(bucket))
	}
	if err == nil {
		s.async, err = jetstream.New(js.Conn(), jetstream.WithPublishAsyncTimeout(chunkTimeout))
	}
	if err == nil {
		return s, nil
	}
	return nil, fmt.Errorf("archive %s: %w", s, s.explain(err))
}

// denied returns the last refusal of the server, of a publication or a request on a subject that contains a text; nil
// if it was of another one. The server answers neither when it refuses them.
func (s *Store) denied(subject string) error {
	err := s.js.Conn().LastError()
	if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), subject) {
		return nil
	}
	return fmt.Errorf("the NATS user must be allowed to publish to %s> and $JS.API.>: %w", s.subjects(), err)
}

// explain adds to the error of a request without an answer that the server has refused such a request.
func (s *Store) explain(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	for _, subject := range []string{s.subjects(), streamOf(s.bucket)} {
		if denied := s.denied(subject); denied != nil {
			return fmt.Errorf("%w: %w", err, denied)
		}
	}
	return err
}

// String returns the URL of the archive.
func (s *Store) String() string { return "nats://" + s.bucket }

// The stream and the subjects of an object store, as ADR-20 defines them.
func streamOf(bucket string) string        { return "OBJ_" + bucket }
func (s *Store) subjects() string          { return "$O." + s.bucket + "." }
func (s *Store) chunks(nuid string) string { return s.subjects() + "C." + nuid }
func (s *Store) meta(name string) string {
	return s.subjects() + "M." + base64.URLEncoding.EncodeToString([]byte(name))
}

// created identifies the stream, among those of the same name.
func (s *Store) created() string {
	return strconv.FormatInt(s.stream.CachedInfo().Created.UnixNano(), 10) + ":"
}

// wrap names the entry and the store in an error.
func (s *Store) wrap(what, name string, err error) error {
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		err = archive.ErrNotFound
	}
	return fmt.Errorf("archive %s: %s %s: %w", s, what, name, s.explain(err))
}

// List implements archive.Store.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[archive.Entry, error] {
	return func(yield func(archive.Entry, error) bool) {
		list, err := s.objects.List(ctx)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
			yield(archive.Entry{}, s.wrap("list", prefix, err))
			return
		}
		slices.SortFunc(list, func(a, b *jetstream.ObjectInfo) int { return cmp.Compare(a.Name, b.Name) })
		for _, o := range list {
			if strings.HasPrefix(o.Name, prefix) && archive.CheckName(o.Name) == nil && !yield(archive.Entry{Name: o.Name, Size: int64(o.Size)}, nil) {
				return
			}
		}
	}
}

// Delete implements archive.Store.
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := archive.CheckName(name); err != nil {
		return err
	}
	if err := s.objects.Delete(ctx, name); err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
		return s.wrap("delete", name, err)
	}
	return nil
}
