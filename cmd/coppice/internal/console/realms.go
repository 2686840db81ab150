package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/mirror"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/overview"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/internal/bus"
)

// realm is a realm that pages of one user show.
type realm struct {
	user   *user
	name   string
	client *client.Client
	// graph is the mirror of the realm, with what is built from it.
	graph     shared[*graph]
	listed    cached[listing]
	searching chan struct{} // a search at a time
	rights    *rights
	// created is when the realm was created, in Unix microseconds; 0 if that is not known. replaced: the realm was deleted,
	// and another one has its name.
	created  atomic.Int64
	replaced atomic.Bool
	// partial: the user may not get all objects.
	partial atomic.Bool
	// trouble says why the mirror is not up to date; "" if it is.
	trouble topic[string]
	// overviews has the overview, encoded.
	overviews shared[*topic[[]byte]]
	roots     rootsOf
	logID     logID

	mu    sync.Mutex
	kinds *client.Kinds
	read  time.Time // when the kinds were read
}

// Times of a realm.
const (
	mirrorLingers   = time.Minute            // after the last page that needs it
	overviewEvery   = 500 * time.Millisecond // at most
	overviewOldest  = 2 * time.Second        // what is not in the mirror is looked at again
	objectEvery     = 100 * time.Millisecond // at most
	kindsAge        = 10 * time.Second
	listAge         = 5 * time.Second // of the realm in the list of realms
	watchAgainAfter = 5 * time.Second
	optionalTime    = 5 * time.Second // for information that a page can do without
)

func newRealm(u *user, name string) *realm {
	r := &realm{user: u, name: name}
	r.client = u.client(name, client.WithOnLeftOut(func(verb string, _ uint64) {
		if verb == bus.VerbWatchGraph {
			r.partial.Store(true)
		}
	}))
	r.listed = cached[listing]{read: r.list, age: listAge, time: requestTime}
	r.searching = make(chan struct{}, 1)
	r.rights = newRights(r.client.Allowed, u.all.s.c.Now)
	r.trouble.init("")
	r.graph = shared[*graph]{begin: r.newGraph, run: r.watch, linger: mirrorLingers}
	r.overviews = shared[*topic[[]byte]]{begin: func() *topic[[]byte] {
		t := &topic[[]byte]{}
		t.init(nil)
		return t
	}, run: r.look}
	return r
}

// graph is the mirror of a realm, and what builds overviews from it.
type graph struct {
	*mirror.Mirror
	overview *overview.Builder
}

func (r *realm) newGraph() *graph {
	now := r.user.all.s.c.Now
	m := mirror.New(now)
	return &graph{m, overview.New(overview.Config{Client: r.client, Mirror: m, Now: now})}
}

// mirror returns the mirror of the realm, which is fed until leave is called.
func (r *realm) mirror() (m *graph, leave func()) { return r.graph.join(r.user.ctx) }

// watch feeds a mirror until ctx ends.
func (r *realm) watch(ctx context.Context, m *graph) {
	for again := false; ctx.Err() == nil; again = true {
		if again { // the watch delivers all objects
			m.Apply(mirror.Change{Op: mirror.Restart})
		}
		for e, err := range r.client.WatchGraph(ctx, client.OnError(func(err error) { r.trouble.set(err.Error()) })) {
			if err != nil {
				r.trouble.set(err.Error())
				break
			}
			if trouble, _ := r.trouble.get(); trouble != "" {
				r.trouble.set("")
			}
			if e.Synced || e.Resource == client.KindsResource && m.Loaded() {
				m.SetPartial(r.partial.Load())
				r.learnKinds(ctx, m)
			}
			m.Apply(changeOf(e))
		}
		select {
		case <-ctx.Done():
		case <-time.After(watchAgainAfter):
		}
	}
}

// learnKinds tells a mirror which kinds are registered. If they cannot be read, it goes by what it knew before.
func (r *realm) learnKinds(ctx context.Context, m *graph) {
	kinds, err := r.client.Kinds(ctx)
	if err != nil {
		return
	}
	var list []mirror.Registered
	for _, k := range kinds.All() {
		list = append(list, mirror.Registered{Group: k.Group, Kind: k.Kind, Resource: k.Resource(), Namespaced: k.Scope != api.ScopeCluster})
	}
	m.SetKinds(list)
}

// look builds the overview until ctx ends.
func (r *realm) look(ctx context.Context, overviews *topic[[]byte]) {
	m, leave := r.mirror()
	defer leave()
	changed := m.Watch()
	defer changed.Close()
	var last []byte
	for {
		began := time.Now()
		if lost, _ := r.user.lost.get(); lost != "" { // nothing can be read: pages keep the last overview
			if !pause(ctx, overviewEvery, nil) {
				return
			}
			continue
		}
		o := r.overview(ctx, m)
		at := o.Time
		o.Time = time.Time{}
		same := encode(o)
		if !bytes.Equal(same, last) {
			last, o.Time = same, at
			overviews.set(encode(o))
		}
		if !pause(ctx, time.Until(began.Add(overviewEvery)), nil) || !pause(ctx, overviewOldest-overviewEvery, changed.C) {
			return
		}
	}
}

// pause waits until a time has passed, or until changed receives. It returns false if ctx ends before.
func pause(ctx context.Context, d time.Duration, changed <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-changed:
	}
	return true
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // a type of the package view
	}
	return data
}

// overview returns the overview of now.
func (r *realm) overview(ctx context.Context, m *graph) *view.Overview {
	m.SetPartial(r.partial.Load())
	o := m.overview.Overview(ctx, r.user.all.s.health.of(ctx, r.name))
	o.Partial = r.partial.Load()
	switch l, has := r.listed.get(ctx); {
	case l.realm != nil:
		if o.Writer = l.realm.GetWriter(); o.Writer == "" {
			o.Stuck = slices.Insert(o.Stuck, 0, noWriter)
		}
	case has && l.err != nil && !errors.Is(l.err, client.ErrForbidden):
		o.Missing = append(o.Missing, view.Missing{Part: "realm", Why: l.err.Error()})
	}
	if why, _ := r.trouble.get(); why != "" {
		o.Missing = append(o.Missing, view.Missing{Part: "changes of objects", Why: why + "; the console tries again"})
	}
	return o
}

// noWriter is shown if no graph service writes the realm.
var noWriter = view.Stuck{
	Blocker: "Writer", Says: "No graph service writes the realm: commands fail, and nothing is deleted.", Examples: []view.Terminating{},
	Cure: view.Cure{Says: "Start a graph service. Where one runs, its log says what it waits for.", Command: "coppice doctor"},
}

// listing is the realm in the list of realms.
type listing struct {
	realm *client.Realm // nil if there is none, or if the list cannot be read
	// err says why the list cannot be read.
	err error
	// refused: the user may not read the realm.
	refused error
}

// list reads whether there is the realm, and whether the user may read it.
func (r *realm) list(ctx context.Context) (listing, bool) {
	found, err := r.client.Operations().ListRealms(ctx, client.ForNames{r.name})
	l := listing{err: err}
	if err == nil && len(found) == 0 {
		l.refused = &client.Error{Reason: client.ErrNotFound, Message: "there is no realm " + r.name}
		return l, true
	}
	if err == nil {
		l.realm = found[0]
		if at := l.realm.GetCreated(); !r.created.CompareAndSwap(0, at) && r.created.Load() != at {
			r.replaced.Store(true)
		}
	}
	if err := r.client.Allowed(ctx, client.Permission{Verb: bus.VerbStatus}); errors.Is(err, client.ErrForbidden) {
		l.refused = err
	}
	return l, true
}

// check returns an error if the user may not read the realm, or if there is none.
func (r *realm) check(ctx context.Context) error {
	l, _ := r.listed.get(ctx)
	return l.refused
}

// current returns an error if the realm was deleted, or deleted and created again.
func (r *realm) current(ctx context.Context) error {
	if err := r.check(ctx); err != nil {
		return err
	}
	if lost, _ := r.user.lost.get(); lost == "" {
		_, _ = r.log(ctx) // an error may pass
	}
	if r.replaced.Load() {
		return r.again()
	}
	return nil
}

// followOverview calls send with each new overview, until ctx ends.
func (r *realm) followOverview(ctx context.Context, send func(encoded []byte)) error {
	overviews, leave := r.overviews.join(r.user.ctx)
	defer leave()
	encoded, version := overviews.get()
	for {
		if encoded != nil {
			send(encoded)
		}
		var err error
		if encoded, version, err = overviews.next(ctx, version); err != nil {
			return err
		}
	}
}

// followObject calls changed at once, and after the object with a uid, one of its owners or one of its dependents has
// changed, until ctx ends.
func (r *realm) followObject(ctx context.Context, uid string, changed func()) error {
	if uid == "" {
		return badRequest("the view %s is that of an object: name its uid", view.ViewObject)
	}
	m, leave := r.mirror()
	defer leave()
	watch := m.Watch(uid)
	defer watch.Close()
	for { // the page may have read the object before the watch began
		changed()
		if !pause(ctx, objectEvery, nil) {
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-watch.C:
		}
	}
}

// overviewPage replies with the overview.
func (r *realm) overviewPage(ctx context.Context, _ *http.Request) (any, error) {
	m, leave := r.mirror()
	defer leave()
	return r.overview(ctx, m), nil
}

// maxDependents is the number of dependents in a reply.
const maxDependents = 200

// familyPage replies with the nearest relatives of an object.
func (r *realm) familyPage(_ context.Context, q *http.Request) (any, error) {
	m, leave := r.mirror()
	defer leave()
	uid, from := q.FormValue("uid"), 0
	if uid == "" {
		return nil, badRequest("name the object with uid=")
	}
	if text := q.FormValue("from"); text != "" {
		var err error
		if from, err = strconv.Atoi(text); err != nil || from < 0 {
			return nil, badRequest("from=%s is not the number of dependents to skip", clip(text))
		}
	}
	f, found := m.Family(uid, from, maxDependents)
	f.Loading = !m.Loaded()
	if !found && !f.Loading {
		return nil, &client.Error{Reason: client.ErrNotFound, Message: "there is no object with the uid " + clip(uid) + " in realm " + r.name}
	}
	return f, nil
}

// maxFound is the number of objects that a search replies with.
const maxFound = 20

// searchPage replies with the objects that a text may mean.
func (r *realm) searchPage(ctx context.Context, q *http.Request) (any, error) {
	m, leave := r.mirror()
	defer leave()
	text := q.FormValue("q")
	if len(text) > 512 {
		return nil, badRequest("a search has at most 512 bytes")
	}
	select {
	case r.searching <- struct{}{}:
		defer func() { <-r.searching }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	found := m.Search(text, maxFound)
	found.Loading = !m.Loaded()
	return found, nil
}

// readKinds returns the kinds of the realm.
func (r *realm) readKinds(ctx context.Context) (*client.Kinds, error) {
	now := r.user.all.s.c.Now()
	r.mu.Lock()
	kinds, fresh := r.kinds, now.Sub(r.read) < kindsAge
	r.mu.Unlock()
	if kinds != nil && fresh {
		return kinds, nil
	}
	kinds, err := r.client.Kinds(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.kinds, r.read = kinds, now
	r.mu.Unlock()
	return kinds, nil
}

// kind returns the kind with a resource, such as "deployments.apps".
func (r *realm) kind(ctx context.Context, resource string) (client.Kind, error) {
	kinds, err := r.readKinds(ctx)
	if err != nil {
		return client.Kind{}, err
	}
	k, err := kinds.Find(resource)
	if err == nil && client.ResourceOf(k).String() == resource {
		return k, nil
	}
	if err == nil || errors.Is(err, client.ErrUnknownKind) {
		err = &client.Error{Reason: client.ErrUnknownKind, Message: fmt.Sprintf("realm %s has no kind %s", r.name, clip(resource))}
	}
	return client.Kind{}, err
}

// reader returns a reader of the realm. What it cannot read is added to missing.
func (r *realm) reader(missing *[]view.Missing) *lookup.Reader {
	r.mu.Lock()
	kinds := r.kinds
	r.mu.Unlock()
	*missing = []view.Missing{}
	reader := lookup.New(r.client, kinds, io.Discard, optionalTime, r.user.all.s.c.Now)
	var mu sync.Mutex
	reader.OnMissing = func(what string, err error) {
		mu.Lock()
		defer mu.Unlock()
		*missing = append(*missing, view.Missing{Part: what, Why: err.Error()})
	}
	return reader
}

// mirrored is the number of objects in the mirrors of a user.
func (u *user) mirrored() (n uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, r := range u.realms {
		if m := r.graph.now(); m != nil {
			n += m.Objects()
		}
	}
	return n
}

// changeOf returns a change for the mirror.
func changeOf(e client.GraphEvent) mirror.Change {
	c := mirror.Change{Resource: e.Resource.String(), Object: e.Object, Revision: e.Revision}
	switch {
	case e.Restarted:
		c.Op = mirror.Restart
	case e.Synced:
		c.Op = mirror.Synced
	case e.Type == client.Deleted:
		c.Op = mirror.Remove
	case e.Type == client.Bookmark:
		c.Op = mirror.Reached
	default:
		c.Op = mirror.Put
	}
	return c
}
