package console

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/mirror"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
)

// The times of the view of a deletion.
const (
	deletionEvery = 250 * time.Millisecond // at most
	// rateEvery is how often the rate of a deletion is computed again without changes: it falls while nothing is removed.
	rateEvery = time.Second
)

// deletionPage replies with how far a deletion is, once all objects are read, or after the time for a request.
func (r *realm) deletionPage(ctx context.Context, q *http.Request) (any, error) {
	uid := q.FormValue("uid")
	if uid == "" {
		return nil, badRequest("name the object that is being deleted with uid=")
	}
	m, leave := r.mirror()
	defer leave()
	f := m.Follow(uid)
	defer f.Close()
	after, err := position(q, "after", "a revision")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	for {
		p := r.progress(m, f, after)
		if !p.Loading {
			return p, nil
		}
		select {
		case <-ctx.Done():
			return p, nil
		case <-f.C:
		}
	}
}

// progress returns how far a deletion is. Until the mirror has the revision after, which is that of the event that began the
// deletion, it is loading.
func (r *realm) progress(m *graph, f *mirror.Follow, after uint64) view.Progress {
	m.SetPartial(r.partial.Load())
	behind := m.Revision() < after
	p := f.Progress()
	p.Loading = p.Loading || behind
	return p
}

// followDeletion calls send with how far a deletion is, at once and after each change, until ctx ends. The end of the
// deletion is sent once.
func (r *realm) followDeletion(ctx context.Context, uid string, after uint64, send func(*view.Progress)) error {
	if uid == "" {
		return badRequest("the view %s is that of a deletion: name the uid of its root", view.ViewDeletion)
	}
	m, leave := r.mirror()
	defer leave()
	f := m.Follow(uid)
	defer f.Close()
	var last []byte
	ended := false
	for {
		p := r.progress(m, f, after)
		if p.State == view.Running || p.State == view.NotDeleted { // it was imported again with its uid
			ended = false
		}
		if encoded := encode(p); !ended && !bytes.Equal(encoded, last) {
			last = encoded
			send(&p)
		}
		ended = ended || p.State == view.Ended
		if !pause(ctx, deletionEvery, nil) {
			return ctx.Err()
		}
		var again <-chan time.Time
		if p.Rate > 0 {
			again = time.After(rateEvery)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.C:
		case <-again:
		}
	}
}
