// Package policies walks the objects of the kinds of protection policies.
//
// When a policy is created, changed or deleted, the objects of its kind are read in the order
// of their names, and the writer changes the protection of those that do not have the right one.
// The status of the policy, which is in the log, has the position of the walk. So the walk resumes
// after a restart and at another writer, and the state is the fold of the log at each step.
// An object that is created, or whose labels change, meanwhile is covered by the commit that does so.
package policies

import (
	"context"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
)

const (
	// maxObjects is the maximum number of objects that one step changes.
	maxObjects = 1000
	// maxRead is the maximum number of objects that one step reads, of pageSize at a time.
	maxRead  = 20_000
	pageSize = 1000
	// idlePause is the time for which Run does not look at the policies after none needed a walk.
	idlePause = 100 * time.Millisecond
)

// Step is one step of a walk: see command.Cover.
type Step struct {
	Policy   uid.UID
	From, To lifecycle.PolicyStatus
	Objects  []uid.UID
}

// Walker walks for policies. Notify may be called concurrently with Run.
type Walker struct {
	state *state.State
	do    func(context.Context, Step) error
	wake  chan struct{}
	// done has the revisions of policies whose walk is complete.
	done map[uid.UID]uint64
}

// New returns a walker on the state of a writer. do has the writer decide a step, and returns
// after it is in the log.
func New(s *state.State, do func(context.Context, Step) error) *Walker {
	return &Walker{state: s, do: do, wake: make(chan struct{}, 1), done: map[uid.UID]uint64{}}
}

// Notify has the policies looked at, because one may have changed. It does not block.
func (w *Walker) Notify() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run walks until ctx ends. It begins with all policies whose walks are not complete.
func (w *Walker) Run(ctx context.Context) error {
	for {
		walked, err := w.Step(ctx)
		if err != nil {
			return err
		}
		if walked {
			continue
		}
		for _, wait := range []<-chan time.Time{time.After(idlePause), nil} {
			var woken <-chan struct{}
			if wait == nil {
				woken = w.wake
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-wait:
			case <-woken:
			}
		}
	}
}

// Step does one step of the first walk that is not complete. It returns false if there is none.
func (w *Walker) Step(ctx context.Context) (walked bool, err error) {
	step, ok, err := w.next()
	if err != nil || !ok {
		return false, err
	}
	return true, w.do(ctx, step)
}

// next returns the next step.
func (w *Walker) next() (step Step, ok bool, err error) {
	snap := w.state.Snapshot()
	defer func() {
		if fail := snap.Err(); err == nil {
			err = fail
		}
		if fail := snap.Close(); err == nil {
			err = fail
		}
	}()
	for _, p := range snap.Kinds().Policies() {
		n := snap.Node(p.UID)
		if n == nil || w.done[p.UID] == n.Revision {
			continue
		}
		status := lifecycle.PolicyStatusOf(snap.Body(n)).Of(n)
		if status.Complete {
			w.done[p.UID] = n.Revision
			continue
		}
		return read(snap, p, status), true, nil
	}
	return Step{}, false, nil
}

// read reads the objects behind the position of a walk.
func read(snap *state.Snapshot, p *lifecycle.Policy, from lifecycle.PolicyStatus) Step {
	step := Step{Policy: p.UID, From: from, To: from}
	kind := snap.Kinds().Of(p.Group, p.Kind)
	if kind == nil { // objects that are created later are covered by their own commits
		step.To.Complete = true
		return step
	}
	reaches := p.Reaches(snap, kind)
	for seen := 0; len(step.Objects) < maxObjects && seen < maxRead && !step.To.Complete; {
		var page []uid.UID
		snap.Names(kind, "", state.NameCursor(step.To.After), func(namespace, name string, u uid.UID) bool {
			step.To.After = lifecycle.PolicyCursor{Namespace: namespace, Name: name}
			page = append(page, u)
			return len(page) < min(pageSize, maxObjects-len(step.Objects))
		})
		step.To.Complete = len(page) < min(pageSize, maxObjects-len(step.Objects))
		snap.Prefetch(page)
		for _, u := range page {
			n := snap.Node(u)
			if n == nil {
				continue
			}
			var labels map[string]string
			if reaches {
				labels = snap.BodyOf(u).GetLabels()
			}
			if snap.TakeUnreadable() != nil {
				continue // B8.1: it stays as it is
			}
			if lifecycle.Miscovered(snap, p, n, labels) {
				step.Objects = append(step.Objects, u)
			}
			if !n.Terminating() && !n.Uninitialized() && p.Covers(snap, kind, labels) {
				step.To.Protected++
			}
		}
		seen += len(page)
		step.To.Covered += uint64(len(page))
	}
	return step
}
