package serve

import "github.com/coppice-gc/coppice/internal/admission"

// processFactor is how many times the limits of one realm the limits of a process are: with 2, a
// realm that is alone gets all that its own limits allow.
const processFactor = 2

// Process bounds the requests to all realms of a process together: those that are under way, those that
// hold objects or compute a plan, and the replies that are open. Its limits are twice those of one
// realm, for services of writers and for those of replicas each, so that reads at writers take
// nothing from the processors, which ask replicas. Realms share places as admission.NewShared says:
// one realm has at most half of them, and gets a further one only while more are free than it has.
//
// A place is released with its request; a service that stops waits for its requests. Each realm
// keeps its own limits.
type Process struct{ writers, replicas Shares }

// NewProcess returns a Process. Give it to the Config of each realm.
func NewProcess() *Process { return &Process{newShares(), newShares()} }

// Shares are the places of all services of one type; nil places for no limit.
type Shares struct {
	reads, pages, plans                              *admission.Limiter
	LogReaders, WarningReaders, Verifiers, LogChunks *admission.Limiter
}

func newShares() Shares {
	shared := func(realm int) *admission.Limiter { return admission.NewShared(processFactor * realm) }
	return Shares{
		reads: shared(maxReads), pages: shared(maxPages), plans: shared(maxPlans),
		LogReaders: shared(MaxLogReaders), WarningReaders: shared(MaxWarningReaders), Verifiers: shared(MaxVerifiers),
		LogChunks: shared(MaxLogReading),
	}
}

// Writers returns the places that the services of writers share, none without a Process.
func (p *Process) Writers() Shares {
	if p == nil {
		return Shares{}
	}
	return p.writers
}

// Replicas returns the places that the services of replicas share, none without a Process.
func (p *Process) Replicas() Shares {
	if p == nil {
		return Shares{}
	}
	return p.replicas
}

// Used returns the number of places of all kinds that are taken.
func (p *Process) Used() (places int) {
	for _, s := range []Shares{p.writers, p.replicas} {
		for _, l := range []*admission.Limiter{s.reads, s.pages, s.plans, s.LogReaders, s.WarningReaders, s.Verifiers, s.LogChunks} {
			n, _ := l.Used("")
			places += n
		}
	}
	return places
}
