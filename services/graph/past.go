package graph

import "github.com/coppice-gc/coppice/services/graph/past"

// pastDir is the directory of states of the past, next to the states. No realm has such a
// name.
const pastDir = ".history"

// openPast returns the past of the realm. It must be closed.
func (r *following) openPast() *past.Reader {
	return r.states.Load().Realm(past.Config{
		Realm: r.name, Log: r.clientLog, Keys: r.keys, Created: r.events.Created(), Archive: r.archive,
		State: r.state, Now: r.time.Now, Logger: r.log,
	})
}
