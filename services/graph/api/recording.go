package api

import (
	"fmt"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// ServeRecording serves reads of the state of a recorded log, which never changes, and of its
// past, until it is stopped. It refuses other verbs. Of r it needs Reached, Now and, in Streams, Verify, Log and
// Heartbeat.
func ServeRecording(c Config, r Replica, past Past) (Stopper, error) {
	served, err := newServer(c, shares{}, "coppice-recording", "Coppice's object API: reads of a recorded log", "")
	if err != nil {
		return nil, err
	}
	recorded := func(why string) *lifecycle.Error {
		return &lifecycle.Error{Reason: api.ErrMethodNotAllowed, Message: fmt.Sprintf("realm %s is a recorded log: %s", c.Realm, why)}
	}
	r.Streams.Admit = func(string) (func(), *lifecycle.Error) {
		return nil, recorded("it does not change, so nothing can be watched")
	}
	s := newServedReplica(served, r.Reached, r.Now)
	present, streams := newObjectsReplica(s, r.Objects), newStreamsServer(s, r.Streams)
	reads := newObjectsWriter(newServedWriter(served, nil, nil), nil, WriterConfig{Lease: unchanged{}, Past: past})
	handlers := map[string]handler{
		bus.VerbGet:      reads.get,
		bus.VerbList:     reads.list,
		bus.VerbReadPast: reads.readPast,
		bus.VerbResolve:  present.resolve,
		bus.VerbPlan:     present.plan,
		bus.VerbWatch:    streams.watch,
		bus.VerbReadLog:  streams.readLog,
		bus.VerbVerify:   streams.verify,
	}
	var endpoints []*endpoint
	for _, verb := range bus.Verbs() {
		e := s.verb(verb, handlers[verb])
		if handlers[verb] == nil {
			e.handle = func(*request) *lifecycle.Error {
				return recorded("it cannot be changed, and has no consumers, warnings or parked work")
			}
		}
		endpoints = append(endpoints, e)
	}
	return s.serve(endpoints...)
}

// unchanged is the lease of a state that nothing changes.
type unchanged struct{}

// Holds implements writer.Lease.
func (unchanged) Holds() bool { return true }

// Lost implements writer.Lease.
func (unchanged) Lost() <-chan struct{} { return nil }
