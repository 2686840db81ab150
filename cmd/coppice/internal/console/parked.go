package console

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
)

// maxParked is the number of pieces of parked work in a page, and in a request to change them.
const maxParked = 100

// parkedPage replies with work that kept failing. Of the content of the work, it has the names of objects only.
func (r *realm) parkedPage(ctx context.Context, q *http.Request) (any, error) {
	after := uint64(0)
	if text := q.FormValue("after"); text != "" {
		var err error
		if after, err = strconv.ParseUint(text, 10, 64); err != nil {
			return nil, badRequest("after=%s is not the id of parked work", clip(text))
		}
	}
	found, err := r.client.Operations().ListParked(ctx, client.AfterID(after), client.Limit(maxParked), client.IncludeContent(true))
	if err != nil {
		return nil, err
	}
	page := view.ParkedPage{Work: []view.ParkedWork{}, Next: found.GetNext()}
	for _, p := range found.GetParked() {
		of := lookup.WorkOf(r.name, p.GetWork())
		w := view.ParkedWork{
			ID: p.GetId(), Time: time.UnixMicro(p.GetWork().GetTime()).UTC(), Subject: p.GetWork().GetSubject(), By: p.GetWork().GetBy(),
			Attempts: p.GetWork().GetAttempts(), Error: p.GetWork().GetError(), Says: of.Says,
		}
		if of.Name != "" {
			w.Object = &view.Ref{Resource: of.Resource, Namespace: of.Namespace, Name: of.Name, UID: of.UID}
		}
		page.Work = append(page.Work, w)
	}
	return page, nil
}

// changeParked puts parked work back into its queue, or drops it.
func (r *realm) changeParked(ctx context.Context, q *http.Request) (any, error) {
	var in view.ChangeParked
	if err := readBody(q, "a change of parked work", &in); err != nil {
		return nil, err
	}
	if len(in.IDs) == 0 || len(in.IDs) > maxParked {
		return nil, badRequest("name 1 to %d pieces of parked work in a request", maxParked)
	}
	var do func(context.Context, []uint64, ...client.ChangeParkedOption) ([]error, error)
	switch in.Action {
	case "Retry":
		do = r.client.Operations().RetryParked
	case "Drop":
		do = r.client.Operations().DropParked
	default:
		return nil, badRequest("the action %q is not known; there are Retry and Drop", clip(in.Action))
	}
	results, err := do(ctx, in.IDs)
	if err != nil {
		return nil, err
	}
	v := view.ParkedResult{Failed: []string{}}
	for i, id := range in.IDs {
		if results[i] == nil {
			v.Done++
		} else {
			v.Failed = append(v.Failed, fmt.Sprintf("parked work %d: %v", id, results[i]))
		}
	}
	return v, nil
}

// resume ends the pause of a realm that was restored or replayed.
func (r *realm) resume(ctx context.Context, q *http.Request) (any, error) {
	var in struct{}
	if q.ContentLength != 0 {
		if err := readBody(q, "a request to resume the realm, which is empty", &in); err != nil {
			return nil, err
		}
	}
	resumed, err := r.client.Operations().Resume(ctx)
	if err != nil {
		return nil, err
	}
	says := "The realm " + r.name + " is resumed."
	if !resumed {
		says = "The realm " + r.name + " was not paused."
	}
	return view.Done{Says: says, Warnings: []string{}}, nil
}
