package api

import (
	"fmt"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/api/objects"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/api/streams"
)

// ServeRecording serves reads of the state of a recorded log, which never changes, and of its
// past, until it is stopped. It refuses other verbs. Of r it needs Reached, Now and, in Streams, Verify, Log and
// Heartbeat.
func ServeRecording(c serve.Config, r ReplicaConfig, past objects.PastReader) (*serve.Server, error) {
	served, err := serve.New(c, serve.Shares{}, "coppice-recording", "Coppice's object API: reads of a recorded log", "")
	if err != nil {
		return nil, err
	}
	recorded := func(why string) *lifecycle.Error {
		return &lifecycle.Error{Reason: api.ErrMethodNotAllowed, Message: fmt.Sprintf("realm %s is a recorded log: %s", c.Realm, why)}
	}
	r.Streams.Admit = func(string) (func(), *lifecycle.Error) {
		return nil, recorded("it does not change, so nothing can be watched")
	}
	s := serve.NewReplica(served, r.Reached, r.Now)
	present, readers := objects.NewReplica(s, r.Objects), streams.New(s, r.Streams)
	reads := objects.NewWriter(serve.NewWriter(served, nil, nil), nil, objects.WriterConfig{Lease: unchanged{}, Past: past})
	handlers := map[string]serve.Handler{
		bus.VerbGet:        reads.Get,
		bus.VerbList:       reads.List,
		bus.VerbReadPast:   reads.ReadPast,
		bus.VerbResolve:    present.Resolve,
		bus.VerbPlan:       present.Plan,
		bus.VerbWatch:      readers.Watch,
		bus.VerbWatchGraph: readers.WatchGraph,
		bus.VerbReadLog:    readers.ReadLog,
		bus.VerbVerify:     readers.Verify,
	}
	var endpoints []*serve.Endpoint
	for _, verb := range bus.Verbs() {
		e := s.Verb(verb, handlers[verb])
		if handlers[verb] == nil {
			e.Handle = func(*serve.Request) *lifecycle.Error {
				return recorded("it cannot be changed, and has no consumers, warnings or parked work")
			}
		}
		endpoints = append(endpoints, e)
	}
	return s.Serve(endpoints...)
}

// unchanged is the lease of a state that nothing changes.
type unchanged struct{}

// Holds implements writer.Lease.
func (unchanged) Holds() bool { return true }

// Lost implements writer.Lease.
func (unchanged) Lost() <-chan struct{} { return nil }
