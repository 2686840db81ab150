package api

import (
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/services/graph/api/realms"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
)

// queueRealms is the queue group in which graph services share requests about the list.
const queueRealms = "realms"

// ServeRealms serves requests about the list of realms until it is stopped. Config.Realm is bus.SystemRealm,
// and Config.State is nil.
func ServeRealms(c serve.Config, r realms.Config) (*serve.Server, error) {
	s, err := serve.New(c, serve.Shares{}, "coppice-realms", "Coppice's list of realms", queueRealms)
	if err != nil {
		return nil, err
	}
	list := realms.New(s, r)
	return s.Serve(
		s.VerbOf(bus.AnyRealm, bus.VerbCreateRealm, list.Create),
		s.VerbOf(bus.AnyRealm, bus.VerbDeleteRealm, list.Delete),
		s.Verb(bus.VerbListRealms, list.List),
		s.Operation(bus.OpRealms, list.Names, bus.RoleProcessor, bus.RoleFinalizers, bus.RoleScanner),
	)
}
