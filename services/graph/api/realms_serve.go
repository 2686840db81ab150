package api

import "github.com/coppice-gc/coppice/internal/bus"

// queueRealms is the queue group in which graph services share requests about the list.
const queueRealms = "realms"

// ServeRealms serves requests about the list of realms until it is stopped. Config.Realm is bus.SystemRealm,
// and Config.State is nil.
func ServeRealms(c Config, r Realms) (Stopper, error) {
	s, err := newServer(c, shares{}, "coppice-realms", "Coppice's list of realms", queueRealms)
	if err != nil {
		return nil, err
	}
	list := newRealmsServer(s, r)
	return s.serve(
		s.verbOf(bus.AnyRealm, bus.VerbCreateRealm, list.create),
		s.verbOf(bus.AnyRealm, bus.VerbDeleteRealm, list.delete),
		s.verb(bus.VerbListRealms, list.list),
		s.operation(bus.OpRealms, list.names, bus.RoleProcessor, bus.RoleFinalizers, bus.RoleScanner),
	)
}
