package writer

import (
	"fmt"
	"time"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// checkPaused returns an error for a request that a paused realm refuses. The error can be
// retried: programs that wait for the realm continue when it is resumed, and none of them
// acts on objects before an operator has looked at them.
func (w *Writer) checkPaused(d *OpenCommit, r *Request) *lifecycle.Error {
	if !d.Tx.Realm().Paused {
		return nil
	}
	if _, ok := r.Work.(PausedWork); ok {
		return nil
	}
	return &lifecycle.Error{
		Reason: api.ErrServiceUnavailable,
		Message: fmt.Sprintf("realm %s is paused, because it was restored or replayed from another log: nothing is changed until an operator runs `coppice realm resume %s`",
			w.c.Realm, w.c.Realm),
		RetryAfter: time.Second,
	}
}
