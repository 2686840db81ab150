package model_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/poll"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

const (
	// settleTime is the time within which a script must settle (liveness).
	settleTime = testkit.Timeout
	// soon is the maximum time to a timer for which the test waits.
	soon = time.Second
)

// settle waits until no work is left for the services among the script's objects (L1 to L5,
// L7), and compares the result with the model: the objects that the API returns (S11), the
// pending work, and whether the rules lead to this state (R1).
func (s *script) settle(ctx context.Context) error {
	s.w.restore()
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	begun := time.Now()
	for {
		m, err := s.quiet(ctx)
		if err != nil {
			return err
		}
		if err = errors.Join(s.confluent(m), s.told(ctx, m)); err == nil {
			break
		}
		// The auditor may read a commit after the replica that replied has applied it.
		if synced := s.w.sync(ctx); synced != nil {
			return errors.Join(err, synced)
		}
		s.a.mu.Lock()
		is := s.a.project(s.tag)
		s.a.mu.Unlock()
		if is.final() == m.final() && is.governed == m.governed {
			return err
		}
		// Meanwhile a service has deleted what a release let through, or another script has changed
		// the realm settings.
	}
	if time.Since(begun) > scanInterval {
		s.w.slow.Add(1)
	}
	return nil
}

// quiet waits until no work is left.
func (s *script) quiet(ctx context.Context) (*model, error) {
	for {
		s.a.mu.Lock()
		m := s.a.project(s.tag)
		next := s.a.progress
		s.a.mu.Unlock()
		if err := s.failed(); err != nil {
			return nil, err
		}
		now := s.w.now().UnixMicro()
		list, due := m.actions(now)
		left := required(list)
		timer := time.Hour
		switch {
		case len(left) > 0:
		case due == 0 || due > now+soon.Microseconds():
			return m, nil
		default:
			timer = time.Duration(due-now)*time.Microsecond + time.Millisecond
		}
		select {
		case <-next:
		case <-time.After(timer):
		case <-ctx.Done():
			return nil, fmt.Errorf("L: it does not settle; there is still to do: %v; there is\n%s", left, m.final())
		}
	}
}

// confluent checks that the model reaches the outcome from the state after the last command
// (R1).
func (s *script) confluent(is *model) error {
	s.a.mu.Lock()
	start, now := s.snapshot, s.snapped
	s.a.mu.Unlock()
	if start == nil || start.governed != is.governed {
		return nil
	}
	start.sessions = is.sessions
	// It ignores objects whose outcome depends on time.
	if _, due := start.actions(now); due != 0 && due < s.w.now().UnixMicro() {
		return nil
	}
	if list, _ := start.actions(now); len(required(list)) == 0 {
		return nil
	}
	reached, only, example := reaches(start, s.tag, now, is.final())
	if reached {
		s.a.mu.Lock()
		s.snapshot = nil
		s.a.mu.Unlock()
	}
	switch {
	case !reached:
		return fmt.Errorf("R1: the rules do not lead from\n%sto\n%sbut to\n%s", start.final(), is.final(), example)
	case only:
		s.w.confluent.Add(1)
	default:
		s.w.racy.Add(1)
	}
	return nil
}

// told compares what the API returns of the script's objects with the model.
func (s *script) told(ctx context.Context, m *model) error {
	// The auditor may read a commit before the replica that replies has applied it.
	at := bus.API{Realm: bus.DefaultRealm, Actor: s.tag, Verb: bus.VerbList, Plural: "pods", Namespace: s.tag}
	if err := poll.Until(ctx, func() (bool, error) {
		var page coppicev1.ListReply
		err := rpc.Retry(ctx, attempt, func(ctx context.Context) error {
			return rpc.Call(ctx, s.w.nc, at.Subject(), nil, &coppicev1.ListRequest{Limit: 1}, &page)
		})
		return page.GetRevision() >= m.revision, err
	}); err != nil {
		return err
	}
	byResource := map[[2]string][]*object{}
	kinds := map[[2]string]*kind{}
	for _, uid := range slices.Sorted(maps.Keys(m.objects)) {
		o := m.objects[uid]
		k := m.kindOf(o)
		at := [2]string{k.resource(), o.ns}
		byResource[at], kinds[at] = append(byResource[at], o), k
	}
	for at, list := range byResource {
		if err := s.compareList(ctx, m, kinds[at], at[1], list); err != nil {
			return err
		}
	}
	return nil
}

func (s *script) compareList(ctx context.Context, m *model, k *kind, ns string, list []*object) error {
	var names []string
	for _, o := range list {
		names = append(names, o.name)
	}
	objects := client.New(s.w.nc, client.WithActor(s.tag)).Resource(client.Resource{Group: k.Group, Plural: k.Plural}, ns)
	if ns != "" {
		var there []string
		for p, err := range objects.List(ctx, client.IncludeUninitialized(true)) {
			if err != nil {
				return err
			}
			there = append(there, p.GetMetadata().GetName())
		}
		slices.Sort(there)
		if want := slices.Sorted(slices.Values(names)); !slices.Equal(there, want) {
			return fmt.Errorf("S11: the list of %s has %v, and the log says %v", k.resource(), there, want)
		}
	}
	for _, o := range list {
		p, err := objects.Get(ctx, o.name, client.IncludeUninitialized(true))
		if err != nil {
			return err
		}
		if is, want := asReported(p), asExpected(o); is != want {
			return fmt.Errorf("S11: get says of %v\n  %s\nand the log\n  %s", o, is, want)
		}
	}
	var reply *coppicev1.ResolveObjectsReply
	err := rpc.Retry(ctx, attempt, func(ctx context.Context) (err error) {
		reply, err = objects.Resolve(ctx, names, client.MinRevision(m.revision))
		return err
	})
	if err != nil {
		return err
	}
	why := ""
	for _, n := range reply.GetNodes() {
		if o := m.objects[n.GetObject().GetMetadata().GetUid()]; o != nil && n.GetRequested() {
			why += resolved(m, o, n, s.w.now().UnixMicro())
		}
	}
	if why != "" {
		return errors.New(why)
	}
	return nil
}

// asReported returns an object in the form in which get returns it.
func asReported(p *coppicev1.Object) string {
	m := p.GetMetadata()
	var owners []ref
	for _, r := range m.GetOwnerReferences() {
		group, version := split(r.GetApiVersion())
		owners = append(owners, ref{group, version, r.GetKind(), r.GetName(), r.GetUid(), tri(r.Controller), tri(r.BlockOwnerDeletion)})
	}
	usesOf := func(list []*coppicev1.Use) (uses []use) {
		for _, u := range list {
			uses = append(uses, use{u.GetGroup(), u.GetKind(), u.GetName(), u.GetUid()})
		}
		return uses
	}
	grace := int64(none)
	if m.DeletionGracePeriodSeconds != nil {
		grace = m.GetDeletionGracePeriodSeconds()
	}
	group, _ := split(p.GetApiVersion())
	return fmt.Sprint(m.GetUid(), " ", p.GetApiVersion(), p.GetKind(), m.GetNamespace(), "/", m.GetName(), " generation ", m.GetGeneration(), " revision ", m.GetResourceVersion(),
		owners, m.GetFinalizers(), " deleted ", m.GetDeletionTimestamp().GetSeconds(), grace, labelText(m.GetLabels()), canonical(p.GetSpec()), statusOf(group, p.GetKind(), p.GetStatus()), len(m.GetInitializers().GetPending()), protector(m.GetProtection().GetActor(), m.GetProtection().GetReason()), m.GetProtection().GetPolicies(), usesOf(m.GetUses()), m.GetExpiresAt().GetSeconds())
}

func asExpected(o *object) string {
	return fmt.Sprint(o.uid, " ", apiVersion(o.group, o.version), o.kind, o.ns, "/", o.name, " generation ", o.generation, " revision ", o.revision,
		o.owners, o.finalizers, " deleted ", o.deleted/1e6, o.grace, o.labels, o.spec, o.status, len(o.pending), o.protector, o.policies, o.uses, o.expires/1e6)
}

// resolved reports differences in the classes, counts and pending work of an object. When
// no work is left for the services, only work of finalizers and agents and work that is not
// due may be pending.
func resolved(m *model, o *object, n *coppicev1.GraphNode, now int64) string {
	var wrong []string
	say := func(what string, is, want any) {
		if fmt.Sprint(is) != fmt.Sprint(want) {
			wrong = append(wrong, fmt.Sprintf("%s is %v, not %v", what, is, want))
		}
	}
	for i, g := range n.GetOwners() {
		c, _, _ := m.classify(o, o.owners[i], now)
		say(fmt.Sprintf("owner %d", i), strings.ToLower(strings.TrimPrefix(g.GetClass().String(), "OWNER_CLASS_")), c)
	}
	say("dependents", n.GetDependents(), len(m.valid(o, false)))
	say("blocking dependents", n.GetBlockingDependents(), len(m.valid(o, true)))
	w := n.GetPending()
	external := slices.ContainsFunc(o.finalizers, func(f string) bool {
		return f != orphanFinalizer && f != foregroundFinalizer && f != contentsFinalizer && f != protectionFinalizer && f != inUseFinalizer
	})
	say("pending: finalize", w.GetFinalize(), o.terminating() && external && m.calls(o))
	say("pending: terminate", w.GetTerminate(), o.ending() && !o.inUse())
	// Work that only waits for the end of an import is pending. To be examined are also dependents
	// that a brake pauses, and protected ones with other owners, unless another dependent is known
	// to wait for nothing but its protection.
	finish, examine, ended := "", 0, m.expires(o.session)
	if o.waiting() && o.acknowledged() && len(m.valid(o, true)) == 0 && !slices.ContainsFunc(m.valid(o, false), (*object).onlyProtected) && // B2.8
		(!o.inUse() || len(m.usersOf(o)) == 0) { // B3.2
		examine = len(m.unmarked(o))
	}
	if now < ended {
		for _, f := range o.finalizers {
			if f == orphanFinalizer && m.finishable(o, f, ended) || f == inUseFinalizer && (m.finishable(o, f, ended) || m.keepsUsers(o, ended)) ||
				f == foregroundFinalizer && o.waiting() && o.acknowledged() && len(m.valid(o, true)) == 0 && len(m.unmarked(o)) == 0 {
				finish = f
			}
		}
	}
	say("pending: finish", w.GetFinish(), finish)
	say("pending: examine", w.GetUnexamined(), examine)
	say("pending: orphan", w.GetOrphan(), now < ended && m.parts(o, ended) && len(m.valid(o, false)) > 0)
	if len(wrong) == 0 {
		return ""
	}
	return fmt.Sprintf("S11: of %v: %s; pending is %v\n", o, strings.Join(wrong, "; "), w)
}

// propose sends requests of the collector that no event calls for, as a redelivered or
// stale message would (S1, S12, S14). The operation "work" is published to the processors.
func (s *script) propose(ctx context.Context, words []string) error {
	s.a.mu.Lock()
	var uids, owners []uid.UID
	for u := range s.a.of[s.tag] {
		uids = append(uids, uid.MustParse(u))
		for _, r := range s.a.m.objects[u].owners {
			owners = append(owners, uid.MustParse(r.uid))
		}
	}
	s.a.mu.Unlock()
	slices.Sort(uids)
	slices.Sort(owners)
	packed := uid.Pack(nil, uids...)
	groups := []*coppicev1.DependentsOf{{Dependents: packed}}
	for _, o := range slices.Compact(append(owners, uids...)) {
		groups = append(groups, &coppicev1.DependentsOf{Owner: uid.Pack(nil, o), Dependents: packed})
	}
	if len(uids) == 0 {
		return nil
	}
	return s.w.propose(ctx, words[0], packed, groups)
}

// plan requests plans and explanations, which must change nothing (S13).
func (s *script) plan(ctx context.Context, words []string) error {
	s.a.mu.Lock()
	t, err := s.target(words[1])
	there := s.a.m.at(t.place) != nil
	s.a.mu.Unlock()
	if err != nil {
		return err
	}
	at := bus.API{Realm: bus.DefaultRealm, Actor: s.tag, Verb: bus.VerbPlan, Group: t.alias.group, Plural: t.plural, Namespace: t.ns}
	var reply coppicev1.PlanReply
	err = rpc.Retry(ctx, attempt, func(ctx context.Context) error {
		return rpc.Call(ctx, s.w.nc, at.Subject(), nil, &coppicev1.PlanRequest{
			Delete: &coppicev1.DeleteRequest{Names: []string{t.name}, Options: &coppicev1.DeleteOptions{PropagationPolicy: parseArguments(words[2:])["policy"]}},
		}, &reply)
	})
	if err != nil && there && !errors.Is(err, client.ErrNotFound) && !errors.Is(err, api.ErrForbidden) { // B2.1
		return err
	}
	return nil
}
