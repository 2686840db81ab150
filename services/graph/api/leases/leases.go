// Package leases serves the verb lease, by which the processes of a controller elect a leader. A lease is a key of
// [bus.ControllerBucket] that is changed only if it has the expected revision. So any graph service can serve a request,
// and none has to be the writer or to follow the log. Package internal/election has the protocol.
package leases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/boottime"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/election"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
)

// Limits of leases: of an actor in a realm, and of all realms together. Requests that arrive at the same time can
// exceed them by a few.
const (
	maxActor  = 64
	maxLeases = 4096
)

// Limits of the fields of a request, in bytes.
const (
	maxHolder = 64
	maxAbout  = 256
)

// attempts is how often a request is decided again, because the lease has changed since it was read.
const attempts = 3

// Server serves leases.
type Server struct {
	*serve.Replica
	js      jetstream.JetStream
	sweeper *sweeper
}

// New returns a Server. js is a connection that serves no requests.
func New(s *serve.Replica, js jetstream.JetStream) *Server {
	return &Server{Replica: s, js: js, sweeper: newSweeper(js, boottime.Now)}
}

// Lease acquires, renews or releases a lease of the actor, or replies who holds it.
func (s *Server) Lease(q *serve.Request, at bus.API) *lifecycle.Error {
	if err := serve.RealmWide(at); err != nil {
		return err
	}
	if err := bus.CheckActor(at.Actor); err != nil { // it is part of a key
		return lifecycle.ErrBadRequest("%v", err)
	}
	var r coppicev1.LeaseRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	if err := check(&r); err != nil {
		return err
	}
	s.Background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		for range attempts {
			reply, err := s.lease(ctx, at.Actor, &r)
			if reply != nil || err != nil {
				return reply, err
			}
		}
		return nil, &lifecycle.Error{
			Reason: api.ErrServiceUnavailable, RetryAfter: 100 * time.Millisecond,
			Message: fmt.Sprintf("realm %s: lease %s changes too often; try again", s.Realm, r.GetName()),
		}
	})
	return nil
}

func check(r *coppicev1.LeaseRequest) *lifecycle.Error {
	if err := bus.CheckLease(r.GetName()); err != nil {
		return lifecycle.ErrBadRequest("name: %v", err)
	}
	if r.GetHolder() == "" {
		return nil // it only asks
	}
	if len(r.GetHolder()) > maxHolder || strings.ContainsFunc(r.GetHolder(), odd) {
		return lifecycle.ErrBadRequest("holder: %.100q is not the id of a candidate: at most %d letters, digits, hyphens and underscores", r.GetHolder(), maxHolder)
	}
	if len(r.GetAbout()) > maxAbout {
		return lifecycle.ErrBadRequest("about: it has %d bytes, at most %d", len(r.GetAbout()), maxAbout)
	}
	if least, most := election.MinTTL.Milliseconds(), election.MaxTTL.Milliseconds(); !r.GetRelease() && (r.GetTtl() < least || r.GetTtl() > most) {
		return lifecycle.ErrBadRequest("ttl: %d ms; it must be %d to %d", r.GetTtl(), least, most)
	}
	return nil
}

// odd reports whether a character must not be in the id of a candidate.
func odd(c rune) bool {
	ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
	return !ok
}

// stored is the value of a lease in the bucket.
type stored struct {
	Holder string `json:"holder"`
	About  string `json:"about"`
	TTL    int64  `json:"ttl"` // ms
}

// lease carries out a request. It returns neither a reply nor an error if the lease has changed meanwhile.
func (s *Server) lease(ctx context.Context, actor string, r *coppicev1.LeaseRequest) (*coppicev1.LeaseReply, *lifecycle.Error) {
	failed := func(err error) *lifecycle.Error { return s.ErrJetStream("lease "+r.GetName(), err) }
	key := bus.LeaseKey(s.Realm, actor, r.GetName())
	entry, err := bus.ReadKey(ctx, s.js, bus.ControllerBucket, key)
	if err != nil {
		return nil, failed(err)
	}
	have := decode(entry)
	switch election.Decide(have, r) {
	case election.None:
		return &coppicev1.LeaseReply{Lease: reply(r.GetName(), have)}, nil
	case election.Drop:
		if err := bus.DropKey(ctx, s.js, bus.ControllerBucket, key, have.Revision); err != nil {
			return nil, failed(err)
		}
		return &coppicev1.LeaseReply{}, nil
	}
	if have.Revision == 0 {
		if err := s.admit(ctx, actor); err != nil {
			return nil, err
		}
	}
	value, err := json.Marshal(stored{r.GetHolder(), r.GetAbout(), r.GetTtl()})
	if err != nil {
		return nil, failed(err)
	}
	revision, err := bus.PutKey(ctx, s.js, bus.ControllerBucket, key, value, have.Revision)
	switch {
	case err == nil:
	case bus.Classify(err) == bus.Conflict:
		return nil, nil
	default:
		return nil, failed(err)
	}
	have = election.Entry{Holder: r.GetHolder(), About: r.GetAbout(), TTL: time.Duration(r.GetTtl()) * time.Millisecond, Revision: revision}
	return &coppicev1.LeaseReply{Held: true, Lease: reply(r.GetName(), have)}, nil
}

func reply(name string, e election.Entry) *coppicev1.Lease {
	if e.Revision == 0 {
		return nil
	}
	return &coppicev1.Lease{Name: name, Holder: e.Holder, About: e.About, Ttl: e.TTL.Milliseconds(), Revision: e.Revision}
}

// decode returns the lease of an entry. A value that cannot be decoded is a lease of no holder.
func decode(entry bus.BucketEntry) election.Entry {
	e := election.Entry{TTL: election.MaxTTL, Revision: entry.Revision}
	var v stored
	if err := json.Unmarshal(entry.Value, &v); err == nil && v.TTL > 0 {
		e.Holder, e.About, e.TTL = v.Holder, v.About, time.Duration(v.TTL)*time.Millisecond
	}
	return e
}

// List returns the leases of all actors of a realm.
func List(ctx context.Context, js jetstream.JetStream, realm string) (list []*coppicev1.ControllerLease, err error) {
	err = bus.ReadLeases(ctx, js, realm, func(actor, name string, entry bus.BucketEntry) {
		e := decode(entry)
		list = append(list, &coppicev1.ControllerLease{Actor: actor, Name: name, Leader: e.About, Ttl: e.TTL.Milliseconds(), Renewed: entry.Time.UnixMicro()})
	})
	return list, err
}

// admit creates the bucket unless it exists, and refuses one more lease of an actor if there are too many.
func (s *Server) admit(ctx context.Context, actor string) *lifecycle.Error {
	failed := func(err error) *lifecycle.Error { return s.ErrJetStream("bucket of leases", err) }
	for swept := false; ; swept = true {
		of, all, err := bus.CountKeys(ctx, s.js, bus.ControllerBucket, bus.LeasesOf(s.Realm, actor))
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			replicas, err := bus.InstalledReplicas(ctx, s.js)
			if err == nil {
				_, err = bus.EnsureBucket(ctx, s.js, bus.ControllerBucket, max(replicas, 1))
			}
			if err != nil {
				return failed(err)
			}
			return nil
		case err != nil:
			return failed(err)
		case of < maxActor && all < maxLeases:
			return nil
		case swept && of >= maxActor:
			return tooMany("realm %s: actor %s has %d leases, the maximum; release those that are not needed, or wait until they have ended", s.Realm, actor, of)
		case swept:
			return tooMany("there are %d leases of controllers, the maximum; release those that are not needed, or wait until they have ended", all)
		}
		if err := s.sweeper.sweep(ctx); err != nil {
			return failed(err)
		}
	}
}

func tooMany(format string, args ...any) *lifecycle.Error {
	return &lifecycle.Error{Reason: api.ErrTooManyRequests, RetryAfter: time.Second, Message: fmt.Sprintf(format, args...)}
}
