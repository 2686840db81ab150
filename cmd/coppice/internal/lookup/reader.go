package lookup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Reader reads from one realm. It is safe for concurrent use, unless Kinds is replaced.
type Reader struct {
	// Kinds are the kinds of the realm when they were last read.
	Kinds *client.Kinds
	// Recording is true if the realm is a recording, which has no warnings.
	Recording bool
	// Progress is a terminal on which long searches of the log show how far they are; nil for none.
	Progress io.Writer
	// OnMissing, if it is not nil, is called with the optional information that is missing, and why, instead of a note.
	OnMissing func(what string, err error)

	client  client.Interface
	stderr  io.Writer
	timeout time.Duration
	now     func() time.Time

	mu    sync.Mutex
	noted map[string]bool // by what is missing
}

// New returns a reader of the realm of c. Optional information is read for at most timeout,
// and stderr receives a note if it is missing. now is the clock of what is written.
func New(c client.Interface, kinds *client.Kinds, stderr io.Writer, timeout time.Duration, now func() time.Time) *Reader {
	return &Reader{Kinds: kinds, client: c, stderr: stderr, timeout: timeout, now: now, noted: map[string]bool{}}
}

// Client returns the client of the realm.
func (r *Reader) Client() client.Interface { return r.client }

// Now returns the present time.
func (r *Reader) Now() time.Time { return r.now() }

// Anything returns a client for requests that name objects by uid, for which the resource
// does not matter.
func (r *Reader) Anything() client.ResourceClient { return r.client.Resource(client.KindsResource, "") }

// OwnerKey returns the key of the owner that a reference names: "replicasets.apps/web".
func (r *Reader) OwnerKey(ref *coppicev1.OwnerReference) string {
	return r.Kinds.ResourceName(ref.GetApiVersion(), ref.GetKind()) + "/" + ref.GetName()
}

// Names of optional information in notes.
const (
	AboutWarnings  = "warnings"
	AboutEvents    = "events"
	AboutConsumers = "consumers of finalizers and agents"
	AboutOwners    = "owners outside the namespace"
	AboutUsers     = "users outside the namespace"
	AboutContents  = "objects that a namespace or kind still contains"
	AboutBlockers  = "dependents that block the deletion"
	AboutClasses   = "classes of the owner references"
	AboutImplicit  = "namespaces without a Namespace object"
	AboutTotals    = "how many objects go with them"
	AboutTimes     = "how long finalizers took lately"
	AboutPolicies  = "expiry policies"
)

// Optional calls read for optional information, for at most the time of one request.
// It returns false, and prints a note once for each kind of information, if the user
// may not read it, a recording does not have it, or the time has passed. Other errors are
// returned.
func (r *Reader) Optional(ctx context.Context, what string, read func(context.Context) error) (ok bool, err error) {
	limited, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	err = read(limited)
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, err
	case errors.Is(err, client.ErrForbidden), errors.Is(err, client.ErrMethodNotAllowed), errors.Is(err, client.ErrTimeout), limited.Err() != nil:
		r.Missing(what, err)
		return false, nil
	}
	return false, err
}

// Missing prints a note that optional information is missing, once for each kind of it.
func (r *Reader) Missing(what string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.noted[what] {
		return
	}
	r.noted[what] = true
	var refused *client.Error
	if errors.As(err, &refused) {
		err = refused // without what the request was wrapped in: the note says that
	}
	if r.OnMissing != nil {
		r.OnMissing(what, err)
		return
	}
	_, _ = fmt.Fprintf(r.stderr, "not shown: %s: %s\n", what, terminal.Printable(err.Error()))
}

// Warnings returns the warnings about the object with a uid, or about all objects if it is
// empty, that match. They are optional.
func (r *Reader) Warnings(ctx context.Context, uid string, match func(client.Warning) bool) ([]client.Warning, error) {
	if r.Recording {
		return nil, nil
	}
	var all []client.Warning
	ok, err := r.Optional(ctx, AboutWarnings, func(ctx context.Context) (err error) {
		all, err = r.client.Warnings(ctx, uid)
		return err
	})
	if !ok {
		return nil, err
	}
	var found []client.Warning
	for _, w := range all {
		if match(w) {
			found = append(found, w)
		}
	}
	return found, nil
}

// History opens the event log of the realm.
func (r *Reader) History(ctx context.Context) (*history.History, error) {
	h, err := history.Open(ctx, r.client.Log(), r.Kinds.ResourceName)
	h.Progress = r.Progress
	return h, err
}
