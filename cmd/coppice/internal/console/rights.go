package console

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// The limits of questions about rights.
const (
	rightsAge      = 10 * time.Second
	refusedAge     = time.Minute // the NATS server logs each request that it refuses
	rightsAtOnce   = 8
	maxRights      = 1000 // of a user in a realm that are kept
	maxRightsNamed = 50   // finalizers in a request; pages ask for more in several
)

// rights are the answers to questions about what a user may do in a realm.
type rights struct {
	ask func(context.Context, client.Permission) error
	now func() time.Time

	places chan struct{} // of questions at once
	mu     sync.Mutex
	known  map[client.Permission]answer
}

type answer struct {
	allowed bool
	at      time.Time
}

// old reports whether the question is to be asked again.
func (a answer) old(now time.Time) bool {
	age := rightsAge
	if !a.allowed {
		age = refusedAge
	}
	return now.Sub(a.at) >= age
}

func newRights(ask func(context.Context, client.Permission) error, now func() time.Time) *rights {
	return &rights{ask: ask, now: now, places: make(chan struct{}, rightsAtOnce), known: map[client.Permission]answer{}}
}

// allowed asks whether the user has a permission. Without an answer, the last one counts. If there is none, the user may
// try: NATS and the graph service decide in any case.
func (r *rights) allowed(ctx context.Context, p client.Permission) bool {
	r.mu.Lock()
	last, has := r.known[p]
	r.mu.Unlock()
	if has && !last.old(r.now()) {
		return last.allowed
	}
	select {
	case r.places <- struct{}{}:
		defer func() { <-r.places }()
	case <-ctx.Done():
		return !has || last.allowed
	}
	err := r.ask(ctx, p)
	if err != nil && !errors.Is(err, client.ErrForbidden) {
		return !has || last.allowed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= maxRights {
		maps.DeleteFunc(r.known, func(_ client.Permission, a answer) bool { return a.old(r.now()) })
	}
	if len(r.known) < maxRights {
		r.known[p] = answer{err == nil, r.now()}
	}
	return err == nil
}

// all asks several questions at once.
func (r *rights) all(ctx context.Context, questions []client.Permission) []bool {
	ctx, cancel := context.WithTimeout(ctx, optionalTime)
	defer cancel()
	answers := make([]bool, len(questions))
	var group sync.WaitGroup
	for i, p := range questions {
		group.Go(func() { answers[i] = r.allowed(ctx, p) })
	}
	group.Wait()
	return answers
}

// rightsPage replies with what the user may do with an object, and with the realm.
func (r *realm) rightsPage(ctx context.Context, q *http.Request) (any, error) {
	of := func(verb string) client.Permission { return client.Permission{Verb: verb} }
	questions := []client.Permission{of(bus.VerbListParked), of(bus.VerbRetryParked), of(bus.VerbDropParked), of(bus.VerbResume), of(bus.VerbReadLog)}
	realmOnly := len(questions)
	finalizers := q.URL.Query()["finalizer"]
	if resource := q.FormValue("resource"); resource != "" {
		more, err := r.questionsAbout(ctx, resource, q.FormValue("namespace"), finalizers)
		if err != nil {
			return nil, err
		}
		questions = append(questions, more...)
	} else if len(finalizers) > 0 {
		return nil, badRequest("finalizer= goes with resource=, the kind of the object that has it")
	}
	answers := r.rights.all(ctx, questions)
	v := view.Rights{
		ListParked: answers[0], RetryParked: answers[1], DropParked: answers[2], Resume: answers[3], Events: answers[4],
		RemoveFinalizers: []string{}, ForceFinalizers: []string{},
	}
	for i, p := range questions[realmOnly:] {
		switch may := answers[realmOnly+i]; {
		case !may:
		case p.Verb == bus.VerbDelete:
			v.Delete = true
		case p.Verb == bus.VerbPlan:
			v.Plan = true
		case p.Verb == bus.VerbRemoveFinalizer:
			v.RemoveFinalizers = append(v.RemoveFinalizers, p.Finalizer)
		case p.Verb == bus.VerbForceFinalizer:
			v.ForceFinalizers = append(v.ForceFinalizers, p.Finalizer)
		}
	}
	return v, nil
}

// questionsAbout returns the questions about an object and its finalizers.
func (r *realm) questionsAbout(ctx context.Context, resource, namespace string, finalizers []string) ([]client.Permission, error) {
	if namespace == noNamespace {
		namespace = ""
	}
	k, namespace, err := r.kindIn(ctx, resource, namespace)
	if err != nil {
		return nil, err
	}
	if len(finalizers) > maxRightsNamed {
		return nil, badRequest("a request names at most %d finalizers", maxRightsNamed)
	}
	of := client.Permission{Resource: client.ResourceOf(k), Namespace: namespace}
	list := []client.Permission{of, of}
	list[0].Verb, list[1].Verb = bus.VerbDelete, bus.VerbPlan
	for _, f := range slices.Compact(slices.Sorted(slices.Values(finalizers))) {
		if err := lifecycle.CheckFinalizer(f); err != nil {
			return nil, badRequest("%s", err.Message)
		}
		for _, verb := range []string{bus.VerbRemoveFinalizer, bus.VerbForceFinalizer} {
			of.Verb, of.Finalizer = verb, f
			list = append(list, of)
		}
	}
	return list, nil
}
