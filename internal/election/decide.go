package election

import (
	"time"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Entry is a stored lease. Its Revision is zero if there is none.
type Entry struct {
	Holder, About string
	TTL           time.Duration
	Revision      uint64
}

// Action is what a request does to a lease.
type Action int

// The actions. Put and Drop are carried out only if the lease still has the revision for which they were decided.
const (
	None Action = iota // the lease stays as it is
	Put                // the sender of the request holds the lease
	Drop               // the lease is removed
)

// Decide returns what a request does to a lease. It needs no clock: the sender of a request that names a
// revision knows that the holder of this revision does not rely on it any more.
func Decide(have Entry, q *coppicev1.LeaseRequest) Action {
	exists := have.Revision > 0
	own := exists && have.Holder == q.GetHolder()
	switch {
	case q.GetHolder() == "":
		return None
	case q.GetRelease() && own:
		return Drop
	case q.GetRelease():
		return None
	case own, have.Revision == q.GetRevision():
		return Put
	}
	// Also a renewal of a lease that does not exist: its holder has released it.
	return None
}

// The bounds of LeaseRequest.ttl.
const (
	MinTTL = time.Second
	MaxTTL = 10 * time.Minute
)
