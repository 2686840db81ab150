package restore

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
)

// Bounds of one request.
const (
	batchObjects = 1000
	batchOfMax   = 4 // a batch has at most this fraction of the server's largest message: a quarter
)

// Run carries out a plan without refusals, in one import session. done, if it is set, is called with the
// number of objects that are restored or have got references back. After an error some objects are
// restored; Prepare and Run of the same request continue.
func (p *Plan) Run(ctx context.Context, done func(n int)) error {
	if len(p.Refusals) > 0 {
		return fmt.Errorf("restore: the plan is refused: %s", p.Refusals[0])
	}
	r := &runner{c: p.c, session: uuid.NewString(), note: p.note, done: done, maxBytes: int(p.c.Conn().MaxPayload()) / batchOfMax}
	for _, i := range p.Objects {
		if err := r.add(ctx, i.Resource, &client.Restored{Object: i.Object, Deletion: i.Deletion}); err != nil {
			return err
		}
	}
	for _, s := range p.Survivors {
		if err := r.add(ctx, s.Resource, &client.Restored{Object: s.Object, Deletion: s.Deletion}); err != nil {
			return err
		}
	}
	if err := r.flush(ctx); err != nil {
		return err
	}
	if r.sent == 0 {
		return nil
	}
	// A role that may restore objects of some kinds and namespaces may close a session there.
	_, err := p.c.Resource(client.ParseResource(r.resource), r.namespace).RestoreBatch(ctx, r.session, nil, client.CloseSession(true))
	return err
}

// Count returns the number of objects that the plan writes.
func (p *Plan) Count() int { return len(p.Objects) + len(p.Survivors) }

// runner sends objects in their order, those that follow each other and have the same resource and
// namespace in one request.
type runner struct {
	c             *client.Client
	session, note string
	done          func(int)
	maxBytes      int

	resource, namespace string
	batch               []*client.Restored
	bytes, sent         int
}

func (r *runner) add(ctx context.Context, resource string, o *client.Restored) error {
	ns, size := o.GetObject().GetMetadata().GetNamespace(), proto.Size(o)
	if resource != r.resource || ns != r.namespace || len(r.batch) == batchObjects || r.bytes+size > r.maxBytes {
		if err := r.flush(ctx); err != nil {
			return err
		}
	}
	r.resource, r.namespace = resource, ns
	r.batch = append(r.batch, o)
	r.bytes += size
	return nil
}

func (r *runner) flush(ctx context.Context) error {
	if len(r.batch) == 0 {
		return nil
	}
	results, err := r.c.Resource(client.ParseResource(r.resource), r.namespace).RestoreBatch(ctx, r.session, r.batch, client.Note(r.note))
	if err != nil {
		return r.stopped(0, err)
	}
	refused := -1
	for i, result := range results {
		switch {
		case result.Err == nil:
			r.sent++
		case refused < 0:
			refused = i
		}
	}
	if refused >= 0 {
		return r.stopped(refused, results[refused].Err)
	}
	if r.batch, r.bytes = r.batch[:0], 0; r.done != nil {
		r.done(r.sent)
	}
	return nil
}

// stopped returns the error for an object that was refused.
func (r *runner) stopped(i int, err error) error {
	m := r.batch[i].GetObject().GetMetadata()
	return fmt.Errorf("restore %s: %w; %d objects are restored; run the same restoration again to continue",
		named(r.resource, r.namespace, m.GetName()), err, r.sent)
}
