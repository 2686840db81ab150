package whatif

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/memrealm"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// logged is a realm whose events are recorded.
type logged struct {
	t     failer
	realm *memrealm.Realm
	b     *eventlog.Builder
	w     *segment.Writer
	out   bytes.Buffer
	last  eventlog.Header
	sum   uint64
	info  segment.Info

	created uid.UID // by the last request
	changed bool    // the last request had events
}

type failer interface {
	Helper()
	Fatal(args ...any)
}

func newLogged(t failer) *logged {
	l := &logged{t: t, realm: memrealm.NewEmpty(memrealm.Start)}
	l.realm.UUIDs = true
	var err error
	if l.w, err = segment.NewWriter(&l.out); err != nil {
		t.Fatal(err)
	}
	l.realm.OnChange = func(e *lifecycle.Event, before, after lifecycle.Object) {
		n := after.Node
		if n == nil {
			n = before.Node
		}
		resource := "kinds.coppice.dev"
		if k := l.realm.Kinds().OfNode(n); k != nil {
			resource = k.Resource()
		}
		var body []byte
		if e.Object.Body != nil {
			var err error
			if body, err = state.Encode(e.Object.Body); err != nil {
				t.Fatal(err)
			}
		}
		l.b.Add(e, n, resource, body)
		if e.Type == lifecycle.ObjectCreated {
			l.created = e.UID
		}
	}
	l.commit("graph", func() {
		ctx := l.realm.Context()
		for _, spec := range lifecycle.BuiltinKinds() {
			l.apply(lifecycle.Create(ctx, lifecycle.Key{Kind: l.realm.Kinds().Of(lifecycle.Group, "Kind")}, memrealm.Registration(spec)))
		}
	})
	return l
}

func (l *logged) apply(out *lifecycle.Outcome, err *lifecycle.Error) {
	if err == nil {
		l.realm.Apply(out.Events)
	}
}

// commit records what do does as one commit of an actor.
func (l *logged) commit(actor string, do func()) {
	h := eventlog.Header{
		RealmID: [16]byte{1}, ID: [16]byte{15: byte(l.last.Sequence), 14: byte(l.last.Sequence >> 8), 0: 1}, Previous: l.sum, Epoch: 1, Time: l.realm.Clock, Sequence: l.last.Sequence + 1, Key: 1, FirstRevision: l.realm.Revision + 1,
	}
	l.b = eventlog.NewBuilder(h)
	l.b.Begin(eventlog.Command{Actor: actor, Verb: "verb"})
	do()
	l.b.End(eventlog.CommandRef{}, nil)
	content := bytes.Clone(l.b.Bytes())
	message, err := eventlog.NewKeys(testkit.Secrets(), "test").Seal(bytes.Clone(content), h.Sequence)
	if err == nil {
		err = l.w.Add(h.Sequence, message)
	}
	must.Succeed(l.t, err)
	l.last, l.sum = h, eventlog.Checksum(content)
}

// do decides a request, and has the collector act.
func (l *logged) do(request request) {
	before := l.realm.Revision
	l.commit("ana", func() { l.apply(request(l.realm.Context())) })
	l.changed = l.realm.Revision > before
	l.commit("processor", l.realm.SettleActive)
	l.realm.Clock = l.realm.Clock.Add(time.Second)
}

type request func(*lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error)

// run runs a what-if of what was recorded.
func (l *logged) run(settings string) *replay {
	if l.last.Sequence > 0 && l.info == (segment.Info{}) {
		var err error
		if l.info, err = l.w.Close(); err != nil {
			l.t.Fatal(err)
		}
	}
	s, err := ReadSettings("settings.yaml", []byte(settings))
	must.Succeed(l.t, err)
	r, err := run(context.Background(), bytes.NewReader(l.out.Bytes()), s, MaxEvents, MaxBytes, func(uint64) {})
	must.Succeed(l.t, err)
	return r
}

// objects returns the objects of a realm, without what depends on revisions and on the settings
// themselves.
func objects(r *memrealm.Realm) map[string]string {
	all := map[string]string{}
	for _, u := range r.UIDs() {
		n := r.Node(u)
		if lifecycle.Governs(n) {
			continue
		}
		all[n.Name] = fmt.Sprintf("%s deleted at %d, grace %v, finalizers %v, owners %v, generation %d, %v", u, n.DeletionTime, grace(n), n.Finalizers, n.Owners, n.Generation, r.Body(n))
	}
	return all
}

func grace(n *lifecycle.Node) int64 {
	if n.GracePeriod == nil {
		return -1
	}
	return *n.GracePeriod
}

const defaults = "{apiVersion: coppice.dev/v1, kind: Realm, metadata: {name: settings}, spec: {}}\n"

// others are settings that differ from the defaults.
var others = []string{
	"{apiVersion: coppice.dev/v1, kind: Realm, metadata: {name: settings}, spec: {ownerGrace: 0s}}\n",
	"{apiVersion: coppice.dev/v1, kind: Realm, metadata: {name: settings}, spec: {processorPropagation: cascade, unreachableCycles: collect}}\n",
	"{apiVersion: coppice.dev/v1, kind: Kind, metadata: {name: configmaps}, spec: {kind: ConfigMap, plural: configmaps, singular: configmap, scope: Namespaced, versions: [{name: v1, defaultDeletion: OrphanDependents}]}}\n",
	"{apiVersion: coppice.dev/v1, kind: Kind, metadata: {name: configmaps}, spec: {kind: ConfigMap, plural: configmaps, singular: configmap, scope: Namespaced, versions: [{name: v1}], gracefulDeletion: {defaultSeconds: 5}}}\n",
}

// live returns a realm in which the settings hold from the beginning.
func live(t failer, settings string) *memrealm.Realm {
	r := memrealm.NewAt(memrealm.Start)
	r.UUIDs = true
	s, err := ReadSettings("settings.yaml", []byte(settings))
	must.Succeed(t, err)
	apply := func(out *lifecycle.Outcome, err *lifecycle.Error) {
		must.Succeed(t, err)
		r.Apply(out.Events)
	}
	kind := func(name string) lifecycle.Key { return lifecycle.Key{Kind: r.Kinds().Of(lifecycle.Group, name)} }
	if s.realm != nil {
		apply(lifecycle.Create(r.Context(), kind("Realm"), clone(s.realm)))
	}
	for name, spec := range s.kinds {
		at := kind("Kind")
		at.Name = name
		n, err := lifecycle.Find(r, at)
		must.Succeed(t, err)
		o := clone(lifecycle.Object{Node: n, Body: r.Body(n)}.API())
		o.Spec, o.Metadata.ResourceVersion = spec, 0
		apply(lifecycle.Update(r.Context(), at, o))
	}
	return r
}

// draw draws a request of a client about few names. With several, objects have up to two owners,
// and no deletion orphans; name is that of the object, "" for a creation: rule R1 leaves open what becomes of an object of which one deletion
// orphans one reference and removes the other.
func draw(t *rapid.T, r *memrealm.Realm, several bool) (request, string) {
	kind := r.Kinds().Of("", "ConfigMap")
	name := fmt.Sprintf("o%d", rapid.IntRange(0, 7).Draw(t, "name"))
	at := func(ctx *lifecycle.Context) lifecycle.Key {
		return lifecycle.Key{Kind: ctx.Kinds().Of("", "ConfigMap"), Namespace: "a"}
	}
	named := func(ctx *lifecycle.Context) lifecycle.Key {
		k := at(ctx)
		k.Name = name
		return k
	}
	switch rapid.IntRange(0, 9).Draw(t, "request") {
	case 0, 1, 2, 3, 4:
		o := &coppicev1.Object{ApiVersion: "v1", Kind: "ConfigMap", Metadata: &coppicev1.ObjectMeta{Name: name}}
		owners := 1
		if several {
			owners = 2
		}
		for range rapid.IntRange(0, owners).Draw(t, "owners") {
			owner := fmt.Sprintf("o%d", rapid.IntRange(0, 7).Draw(t, "owner"))
			u := uid.MustParse("00000000-0000-7000-9000-000000000001")
			if is := r.Lookup(kind, "a", owner); is != "" {
				u = is
			}
			o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, &coppicev1.OwnerReference{
				ApiVersion: "v1", Kind: "ConfigMap", Name: owner, Uid: u.String(), BlockOwnerDeletion: new(rapid.Bool().Draw(t, "blocks")),
			})
		}
		if rapid.IntRange(0, 3).Draw(t, "finalizer") == 0 {
			o.Metadata.Finalizers = []string{"example.com/one"}
		}
		return func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
			return lifecycle.Create(ctx, at(ctx), clone(o))
		}, ""
	case 5, 6, 7:
		policies := []string{"", lifecycle.Background, lifecycle.Foreground}
		if !several {
			policies = append(policies, lifecycle.Orphan)
		}
		o := &coppicev1.DeleteOptions{PropagationPolicy: rapid.SampledFrom(policies).Draw(t, "policy")}
		if o.PropagationPolicy == lifecycle.Background {
			o.PropagationPolicy = "" // the log does not distinguish them
		}
		return func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
			return lifecycle.Delete(ctx, named(ctx), "", o)
		}, name
	case 8:
		return func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
			return lifecycle.RemoveFinalizer(ctx, named(ctx), "example.com/one", nil)
		}, name
	}
	p := &coppicev1.Patch{Name: name, Patch: fmt.Appendf(nil, `{"metadata":{"labels":{"app":"%d"}},"spec":{"n":%d}}`, rapid.IntRange(0, 2).Draw(t, "label"), rapid.IntRange(0, 2).Draw(t, "spec"))}
	return func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.Patch(ctx, at(ctx), p)
	}, name
}

// What a what-if returns equals a realm that got the same requests under the other settings. Under
// the same settings, nothing differs.
func TestEqualsLive(t *testing.T) {
	t.Parallel()
	differences, dropped := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		l := newLogged(t)
		i := rapid.IntRange(0, len(others)-1).Draw(t, "settings")
		// A default policy that orphans meets several owners, too: see draw.
		several := rapid.Bool().Draw(t, "several owners") && i != 2
		b := live(t, others[i])
		for range rapid.IntRange(1, 25).Draw(t, "requests") {
			request, name := draw(t, l.realm, several)
			is := func(r *memrealm.Realm) uid.UID { return r.Lookup(r.Kinds().Of("", "ConfigMap"), "a", name) }
			same := name == "" || is(l.realm) == is(b) // a request is about the object of a uid
			b.Clock = l.realm.Clock
			l.do(request)
			ctx := b.Context()
			ctx.NewUID = func() uid.UID { return l.created }
			if l.changed && same { // the log does not have other requests
				if out, err := request(ctx); err == nil {
					b.Apply(out.Events)
				}
			}
			b.SettleActive()
			b.Clock = l.realm.Clock
			b.SettleActive()
		}
		b.Clock = l.last.Time
		if r := l.run(defaults); len(r.report().Objects) > 0 || len(r.dropped) > 0 || !maps.Equal(objects(r.other.realm), objects(l.realm)) {
			t.Fatalf("under the same settings: %+v", r.report())
		}
		r := l.run(others[i])
		differences += len(r.report().Objects)
		dropped += len(r.dropped)
		if got, want := objects(r.other.realm), objects(b); !maps.Equal(got, want) {
			t.Fatalf("under %s the what-if has\n%v\nand a live realm\n%v\ndropped %+v", others[i], got, want, r.dropped)
		}
	})
	if !testing.Short() && (differences == 0 || dropped == 0) {
		t.Errorf("%d differences, %d dropped events: the test shows nothing", differences, dropped)
	}
}

// Logs beyond the limits, parts of logs and unusable settings are refused.
func TestRefused(t *testing.T) {
	t.Parallel()
	l := newLogged(t)
	l.run(defaults)
	s, err := ReadSettings("settings.yaml", []byte(defaults))
	must.Succeed(t, err)
	_, err = run(t.Context(), bytes.NewReader(l.out.Bytes()), s, 3, MaxBytes, func(uint64) {})
	if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "--to") {
		t.Errorf("a log of more than three events: %v", err)
	}
	if _, err = run(t.Context(), bytes.NewReader(l.out.Bytes()), s, MaxEvents, 10, func(uint64) {}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a log of more than ten bytes: %v", err)
	}
	for _, text := range []string{
		"", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", defaults + "---\n" + defaults,
		"{apiVersion: coppice.dev/v1, kind: Realm, metadata: {name: settings}, spec: {ownerGrace: soon}}",
	} {
		if _, err := ReadSettings("settings.yaml", []byte(text)); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
	unknown := strings.ReplaceAll(others[2], "configmap", "thing")
	if s, err = ReadSettings("settings.yaml", []byte(unknown)); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), bytes.NewReader(l.out.Bytes()), s, func(uint64) {}); !errors.Is(err, ErrSettings) {
		t.Errorf("a kind that the log does not register: %v", err)
	}
}
