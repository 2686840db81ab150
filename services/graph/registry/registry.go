// Package registry stores the list of realms in a JetStream key-value bucket, which only
// graph services may write. A realm is a key; a change names the revision of the key that
// it replaces, so that of two graph services that change a realm at once one fails and
// reads it again.
//
// A realm that was deleted keeps its key, with the ids of its former logs: a graph service
// that was away meanwhile deletes a state only if the list says that its log was deleted.
// A realm that is missing in the list was not deleted: the list may have been lost.
package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Registry is the list of realms. It is safe for concurrent use.
type Registry struct {
	js       jetstream.JetStream
	replicas int

	opening place // of the call that opens or creates the bucket

	mu sync.Mutex
	kv jetstream.KeyValue

	reading place // of the call that reads; it guards the following
	reader  *bus.BucketReader
	last    List // the last that was read
}

// List is the list of realms at a version.
type List struct {
	// Version identifies the content of the list. Two versions can only be compared for
	// equality.
	Version string
	// Realms are ordered by name. They must not be changed.
	Realms []*coppicev1.Realm
}

// Of returns the realm with a name, nil if there is none.
func (l List) Of(name string) *coppicev1.Realm {
	i, ok := slices.BinarySearchFunc(l.Realms, name, func(r *coppicev1.Realm, name string) int { return strings.Compare(r.GetName(), name) })
	if !ok {
		return nil
	}
	return l.Realms[i]
}

// Active returns the names of the realms that are served.
func (l List) Active() []string {
	var names []string
	for _, r := range l.Realms {
		if r.GetState() == coppicev1.RealmState_REALM_STATE_ACTIVE {
			names = append(names, r.GetName())
		}
	}
	return names
}

// New returns the list of realms. Its bucket is created with this number of replicas when
// it is first used.
func New(js jetstream.JetStream, replicas int) *Registry {
	return &Registry{
		js: js, replicas: replicas, opening: make(place, 1),
		reading: make(place, 1), reader: bus.NewBucketReader(js, bus.RealmBucket),
	}
}

// timeout bounds the requests of one call.
const timeout = 5 * time.Second

// place is a lock for calls that wait for NATS: the others wait for it until their context ends.
type place chan struct{}

func (p place) take(ctx context.Context) error {
	select {
	case p <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("bucket %s: NATS does not reply to an earlier call: %w", bus.RealmBucket, ctx.Err())
	}
}

func (p place) release() { <-p }

// bucket opens the bucket, or creates it.
func (g *Registry) bucket(ctx context.Context) (jetstream.KeyValue, error) {
	opened := func() jetstream.KeyValue {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.kv
	}
	if kv := opened(); kv != nil {
		return kv, nil
	}
	if err := g.opening.take(ctx); err != nil {
		return nil, err
	}
	defer g.opening.release()
	if kv := opened(); kv != nil {
		return kv, nil
	}
	kv, err := bus.EnsureBucket(ctx, g.js, bus.RealmBucket, g.replicas)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	g.kv = kv
	g.mu.Unlock()
	return kv, nil
}

// List returns the list as it is now. If nothing has changed since the last call, this
// costs one small request to the NATS server that leads the bucket's stream.
func (g *Registry) List(ctx context.Context) (List, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if _, err := g.bucket(ctx); err != nil {
		return List{}, err
	}
	if err := g.reading.take(ctx); err != nil {
		return List{}, err
	}
	defer g.reading.release()
	_, err := g.reader.Update(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		g.mu.Lock()
		g.kv = nil // the next call creates it again
		g.mu.Unlock()
	}
	if err != nil {
		return List{}, err
	}
	if g.last.Version == g.reader.Version() {
		return g.last, nil
	}
	list := List{Version: g.reader.Version()}
	for _, entry := range g.reader.Entries() {
		r, err := decode(entry.Key, entry.Value)
		if err != nil {
			return List{}, err
		}
		list.Realms = append(list.Realms, r)
	}
	g.last = list
	return list, nil
}

// ServerTime returns the time of the NATS server that leads the bucket's stream.
func (g *Registry) ServerTime(ctx context.Context) (time.Time, error) {
	info, err := bus.BucketInfo(ctx, g.js, bus.RealmBucket)
	if err != nil {
		return time.Time{}, err
	}
	return info.TimeStamp, nil
}

func decode(key string, value []byte) (*coppicev1.Realm, error) {
	r := &coppicev1.Realm{}
	if err := proto.Unmarshal(value, r); err != nil {
		return nil, fmt.Errorf("bucket %s: key %s is not a realm: %w; remove the key, and create the realm again", bus.RealmBucket, key, err)
	}
	r.Name = key
	return r, nil
}

// Change calls change with a realm, and stores the result. A realm that is not in the list has no
// state. change may be called several times, if other graph services change the realm at the same
// time. If it returns an error, Change returns this error, and the realm stays as it is.
func (g *Registry) Change(ctx context.Context, name string, change func(*coppicev1.Realm) error) (*coppicev1.Realm, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	kv, err := g.bucket(ctx)
	if err != nil {
		return nil, err
	}
	for {
		r, revision := &coppicev1.Realm{Name: name}, uint64(0)
		entry, err := kv.Get(ctx, name)
		switch {
		case err == nil:
			revision = entry.Revision()
			if r, err = decode(name, entry.Value()); err != nil {
				return nil, err
			}
		case !errors.Is(err, jetstream.ErrKeyNotFound):
			return nil, fmt.Errorf("bucket %s: key %s: %w", bus.RealmBucket, name, err)
		}
		before := proto.Clone(r)
		if err := change(r); err != nil {
			return nil, err
		}
		if proto.Equal(before, r) {
			return r, nil
		}
		value, err := proto.Marshal(r)
		if err != nil {
			return nil, err
		}
		if revision == 0 {
			_, err = kv.Create(ctx, name, value)
		} else {
			_, err = kv.Update(ctx, name, value, revision)
		}
		if errors.Is(err, jetstream.ErrKeyExists) || err != nil && bus.Classify(err) == bus.Conflict {
			continue // another graph service has changed it
		}
		if err != nil {
			return nil, fmt.Errorf("bucket %s: key %s: %w", bus.RealmBucket, name, err)
		}
		return r, nil
	}
}

// The maximum numbers of realms, and of names in the list, which keeps the names of deleted realms.
// A graph service has a state and some hundred KiB of memory for each realm.
const (
	maxRealms = 1_000
	maxNames  = 10_000
)

// checkRoom returns an error if the list has no room for another realm.
func (g *Registry) checkRoom(ctx context.Context, name, id string) error {
	list, err := g.List(ctx)
	if err != nil {
		return err
	}
	if id != "" && list.Of(name).GetCreateId() == id {
		return nil // a repetition
	}
	live := 0
	for _, r := range list.Realms {
		if r.GetState() != coppicev1.RealmState_REALM_STATE_DELETED {
			live++
		}
	}
	switch {
	case live >= maxRealms:
		return &lifecycle.Error{Reason: api.ErrConflict, Message: fmt.Sprintf("realm %q is not created: there are %d realms, which is the maximum; delete one that is not needed", name, live)}
	case len(list.Realms) >= maxNames && list.Of(name) == nil:
		return &lifecycle.Error{Reason: api.ErrConflict, Message: fmt.Sprintf("realm %q is not created: the list has %d names, which is the maximum; use the name of a realm that was deleted", name, len(list.Realms))}
	}
	return nil
}

// Create adds a realm to the list. A realm that was deleted is created again, with an empty
// log. id identifies the request, empty for none: a repetition by the same actor, while nothing
// else has changed the realm, returns it. There are at most 1,000 realms, and 10,000 names with those of deleted ones.
func (g *Registry) Create(ctx context.Context, name, actor, id string, now time.Time) (*coppicev1.Realm, error) {
	if err := g.checkRoom(ctx, name, id); err != nil {
		return nil, err
	}
	return g.Change(ctx, name, func(r *coppicev1.Realm) error {
		switch r.GetState() {
		case coppicev1.RealmState_REALM_STATE_ACTIVE:
			if id != "" && r.GetCreateId() == id && r.GetCreatedBy() == actor {
				return nil
			}
			return &lifecycle.Error{Reason: api.ErrAlreadyExists, Message: fmt.Sprintf("realm %q already exists", name)}
		case coppicev1.RealmState_REALM_STATE_DELETING:
			return &lifecycle.Error{Reason: api.ErrConflict, Message: fmt.Sprintf("realm %q is being deleted; create it again when that is done", name)}
		}
		deleted := r.GetDeletedIds()
		proto.Reset(r)
		r.Name, r.State, r.Created, r.CreatedBy, r.CreateId, r.DeletedIds = name, coppicev1.RealmState_REALM_STATE_ACTIVE, now.UnixMicro(), actor, id, deleted
		return nil
	})
}

// Ensure adds a realm to the list unless it is or was there: a realm that was deleted stays
// deleted.
func (g *Registry) Ensure(ctx context.Context, name string, now time.Time) (*coppicev1.Realm, error) {
	return g.Change(ctx, name, func(r *coppicev1.Realm) error {
		if r.GetState() == coppicev1.RealmState_REALM_STATE_UNSPECIFIED {
			r.State, r.Created = coppicev1.RealmState_REALM_STATE_ACTIVE, now.UnixMicro()
		}
		return nil
	})
}

// Delete records that a realm is to be deleted. If it is already being deleted, only
// withoutArchive has an effect. The error is NotFound for a realm that is not in the list or was
// deleted.
func (g *Registry) Delete(ctx context.Context, name, actor string, withoutArchive bool, now time.Time) (*coppicev1.Realm, error) {
	return g.Change(ctx, name, func(r *coppicev1.Realm) error {
		switch r.GetState() {
		case coppicev1.RealmState_REALM_STATE_ACTIVE:
			r.State, r.Deleted, r.DeletedBy = coppicev1.RealmState_REALM_STATE_DELETING, now.UnixMicro(), actor
		case coppicev1.RealmState_REALM_STATE_DELETING:
		default:
			return NotFound(name)
		}
		r.WithoutArchive = r.GetWithoutArchive() || withoutArchive
		return nil
	})
}

// keptIDs is the number of ids of deleted logs that a realm keeps.
const keptIDs = 64

// Waiting records what the deletion of a realm waits for; an empty text for nothing.
func (g *Registry) Waiting(ctx context.Context, name, why string) error {
	return g.deleting(ctx, name, func(r *coppicev1.Realm) { r.Waiting = why })
}

// Deleting records that the log with an id is about to be deleted with its realm.
func (g *Registry) Deleting(ctx context.Context, name string, id []byte) error {
	return g.deleting(ctx, name, func(r *coppicev1.Realm) { forget(r, id) })
}

// Deleted records that a realm's streams are deleted.
func (g *Registry) Deleted(ctx context.Context, name string) error {
	return g.deleting(ctx, name, func(r *coppicev1.Realm) {
		r.State, r.Waiting = coppicev1.RealmState_REALM_STATE_DELETED, ""
	})
}

// deleting changes a realm that is being deleted. If another graph service has finished the
// deletion, it changes nothing.
func (g *Registry) deleting(ctx context.Context, name string, change func(*coppicev1.Realm)) error {
	_, err := g.Change(ctx, name, func(r *coppicev1.Realm) error {
		if r.GetState() == coppicev1.RealmState_REALM_STATE_DELETING {
			change(r)
		}
		return nil
	})
	return err
}

// forget adds the id of a log to those that were deleted.
func forget(r *coppicev1.Realm, id []byte) {
	if len(id) == 0 || WasDeleted(r, id) {
		return
	}
	r.DeletedIds = append(r.DeletedIds, id)
	r.DeletedIds = r.DeletedIds[max(0, len(r.DeletedIds)-keptIDs):]
}

// WasDeleted reports whether the log with an id is one of the realm's that were deleted.
func WasDeleted(r *coppicev1.Realm, id []byte) bool {
	return slices.ContainsFunc(r.GetDeletedIds(), func(deleted []byte) bool { return string(deleted) == string(id) })
}

// NotFound is the error for a realm that is not in the list.
func NotFound(name string) *lifecycle.Error {
	return &lifecycle.Error{Reason: api.ErrNotFound, Message: fmt.Sprintf("there is no realm %q", name)}
}
