package propagator

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/queue"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Republish publishes the rows again that have been pending for the minimum age of the
// request and were not published in that time. It also counts pending work, and reports
// stuck objects. Messages that wait in a queue are not lost: while a queue has any, the
// minimum age of its rows is ten times as long.
func (p *Propagator) Republish(ctx context.Context, r *coppicev1.RepublishRequest) (*coppicev1.RepublishReply, error) {
	age := time.Duration(r.GetMinAgeMilliseconds()) * time.Millisecond
	ages := map[string]time.Duration{}
	for _, name := range queueOf {
		ages[name] = age
		if n, err := p.c.Queued(ctx, name); err != nil {
			return nil, err
		} else if n > 0 {
			ages[name] = 10 * age
		}
	}
	now := p.now()
	stuck := p.findStuck(now)
	reply, err := p.count(ctx, republishDependents, func(u uid.UID, row state.WorkRow) {
		stuck.visit(u, row)
		if onlyCalls(row) && p.quota.waits(u) {
			return // published when there is room: see refill
		}
		least := age
		for _, t := range TypesOf(row) {
			if a, ok := ages[queueOf[t]]; ok {
				least = max(least, a)
			}
		}
		if since := max(row.Since, p.published.of(u)); since.Add(least) <= now {
			p.add(u, publishAgain)
		}
	})
	if err == nil || ctx.Err() != nil {
		err = errors.Join(err, stuck.report(ctx)) // also those that were found before ctx ended
	}
	return reply, err
}

// publishTimes is when rows were published last.
type publishTimes struct {
	mu sync.Mutex
	at map[uid.UID]lifecycle.Time
}

// maxPublished bounds publishTimes.
const maxPublished = queue.DefaultLimit

func (t *publishTimes) set(u uid.UID, at lifecycle.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.at) >= maxPublished {
		for other := range t.at { // any: it is published again the sooner
			delete(t.at, other)
			break
		}
	}
	t.at[u] = at
}

func (t *publishTimes) of(u uid.UID) lifecycle.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at[u]
}

func (t *publishTimes) forget(gone []uid.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, u := range gone {
		delete(t.at, u)
	}
}

// touch records that a row is published at a time.
func (p *Propagator) touch(u uid.UID, at lifecycle.Time) { p.published.set(u, at) }
