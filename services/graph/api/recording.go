package api

import (
	"fmt"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// ServeRecording serves reads of the state of a recorded log, which never changes, and of its
// past, until it is stopped. It refuses other verbs. Of r it needs Reached, Verify, Log, Now and
// Heartbeat, which must be positive.
func ServeRecording(c Config, r Replica, past Past) (Stopper, error) {
	s, err := newServer(c, shares{}, "coppice-recording", "Coppice's object API: reads of a recorded log", "")
	if err != nil {
		return nil, err
	}
	r.Admit = func(string) (func(), *lifecycle.Error) {
		return nil, s.recorded("it does not change, so nothing can be watched")
	}
	rs, ws := newReplicaServer(s, r), &writerServer{server: s, w: Writer{Lease: unchanged{}, Past: past}}
	served := map[string]func(*request){
		bus.VerbGet: ws.targeted(ws.get), bus.VerbList: ws.targeted(ws.list), bus.VerbWatch: rs.watch,
		bus.VerbResolve: rs.resolveObjects, bus.VerbPlan: rs.plan, bus.VerbReadLog: rs.readLog, bus.VerbReadPast: ws.targeted(ws.readPast), bus.VerbVerify: rs.verify,
	}
	for _, verb := range bus.Verbs() {
		handle := served[verb]
		if handle == nil {
			handle = func(q *request) {
				q.answer(nil, s.recorded("it cannot be changed, and has no consumers, warnings or parked work"))
			}
		}
		if err := s.add(s.verb(verb), handle); err != nil {
			_ = s.Stop()
			return nil, err
		}
	}
	return s, nil
}

// recorded returns the error for a request that a recording does not serve.
func (s *server) recorded(why string) *lifecycle.Error {
	return &lifecycle.Error{Reason: api.ErrMethodNotAllowed, Message: fmt.Sprintf("realm %s is a recorded log: %s", s.Realm, why)}
}

// unchanged is the lease of a state that nothing changes.
type unchanged struct{}

func (unchanged) Holds() bool           { return true }
func (unchanged) Lost() <-chan struct{} { return nil }
