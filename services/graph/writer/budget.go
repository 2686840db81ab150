package writer

import "sync/atomic"

// Budget bounds the bytes of the requests that wait for the writers of all realms of a
// process. A nil Budget has no bound. It is safe for concurrent use.
//
// Beyond the bound, the queue of each realm accepts requests of up to MinRealm bytes in all,
// and one request if it is empty, so that a realm can be used while others fill the budget.
type Budget struct {
	bytes int
	used  atomic.Int64
}

// DefaultBudget is the default size of a Budget, in bytes.
const DefaultBudget = 128 << 20

// MinRealm is what a realm can use of a Budget that is used up, in bytes.
const MinRealm = 1 << 20

// NewBudget returns a budget of a number of bytes.
func NewBudget(bytes int) *Budget { return &Budget{bytes: bytes} }

// Used returns the bytes of the requests that wait.
func (b *Budget) Used() int { return int(b.used.Load()) }

// left returns how many bytes a queue that has own bytes can add. Queues that add at the
// same time may exceed the budget by one request each.
func (b *Budget) left(own int) int {
	if b == nil {
		return int(^uint(0)>>1) - own
	}
	return max(b.bytes-b.Used(), MinRealm-own, 0)
}

func (b *Budget) add(bytes int) {
	if b != nil {
		b.used.Add(int64(bytes))
	}
}
