package graph_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// unreadableFamily creates an owner with a finalizer and a dependent of it, and another object.
func unreadableFamily(ctx context.Context, tb testing.TB, c *client.Client) {
	tb.Helper()
	owner := configMap("bad")
	owner.Metadata.Finalizers, owner.Metadata.Labels = []string{bus.ExampleFinalizer}, map[string]string{"app": "needle"}
	owner = put(ctx, tb, c, owner)
	dependent := configMap("dependent")
	must.Succeed(tb, client.SetOwnerReference(owner, dependent))
	put(ctx, tb, c, dependent)
	create(ctx, tb, c, "good")
}

// malformedInLog appends a commit that gives the object a body that cannot be decoded. The last
// commit of the log has one event.
func malformedInLog(ctx context.Context, tb testing.TB, n *installation, dir, name string) {
	tb.Helper()
	s, err := state.Open(filepath.Join(dir, realm), state.Config{})
	must.Succeed(tb, err)
	snap := s.Snapshot()
	node := snap.Node(snap.Lookup(snap.Kinds().Resource("configmaps"), "a", name))
	if err := errors.Join(snap.Err(), snap.Close(), s.Close()); err != nil || node == nil {
		tb.Fatal(node, err)
	}
	a := newAttacker(tb, n)
	last := a.last(ctx)
	m := eventlog.Message{Position: last, Data: a.message(ctx, last)}
	h, foreign := eventlog.NewKeys(testkit.Secrets(), realm).Check(m)
	commit, err := m.Open(new([]byte))
	if foreign != "" || err != nil {
		tb.Fatal(foreign, err)
	}
	h.Sequence, h.Previous, h.ID = h.Sequence+1, eventlog.Checksum(commit), [16]byte{14}
	h.FirstRevision++
	b := eventlog.NewBuilder(h)
	b.Begin(eventlog.Command{Actor: "application", Verb: "update"})
	b.Add(&lifecycle.Event{
		Type: lifecycle.ObjectUpdated, UID: node.UID, Reason: coppicev1.Reason_REASON_REQUESTED, Object: lifecycle.Object{Node: node},
	}, node, "configmaps", []byte(statetest.Malformed))
	b.End(eventlog.CommandRef{}, nil)
	sealed, err := eventlog.NewKeys(testkit.Secrets(), realm).Seal(b.Bytes(), last+1)
	must.Succeed(tb, err)
	a.publish(ctx, sealed)
}

// unreadable returns whether an error says that an object is unreadable, and what to do.
func unreadable(err error) bool {
	return errors.Is(err, client.ErrInternalError) && strings.Contains(err.Error(), "coppice rebuild") && strings.Contains(err.Error(), "--ignore-read-errors")
}

// B8.1, B8.2: an object whose body cannot be decoded fails the requests that need the body, and
// nothing else. It is deleted by a verb of its own, without its finalizers, and the log says who
// deleted it and why.
func TestUnreadableObject(t *testing.T) {
	t.Parallel()
	n, dir := newInstallation(t), t.TempDir()
	s := n.serve(dir, nil).writing()
	app := n.application()
	unreadableFamily(n.Ctx, t, app)
	s.Stop()
	malformedInLog(n.Ctx, t, n, dir, "bad")
	s = n.serve(dir, nil).writing()
	objects := app.Resource(configMaps, "a")
	operator := n.as(bus.RoleOperator)
	force := operator.Resource(configMaps, "a")
	watching, stop := context.WithCancel(n.Ctx)
	synced, ended := make(chan struct{}), make(chan struct{})
	begun := sync.OnceFunc(func() { close(synced) })
	go func() { // so that changes of config maps are recorded with their bodies
		defer close(ended)
		for e, err := range app.Resource(configMaps, "b").Watch(watching) {
			if err == nil && e.Synced { // also when the watch begins again
				begun()
			}
		}
	}()
	defer func() { stop(); <-ended }()
	testkit.Receive(t, n.Ctx, "the watch", synced)
	inGraph := map[string]bool{}
	for e, err := range app.WatchGraph(n.Ctx) {
		must.Succeed(t, err)
		if inGraph[e.Object.GetMetadata().GetName()] = true; e.Synced {
			break
		}
	}
	if !inGraph["bad"] || !inGraph["good"] {
		t.Errorf("the graph has %v", inGraph)
	}
	for name, do := range map[string]func() error{
		"get":    func() error { _, err := objects.Get(n.Ctx, "bad"); return err },
		"patch":  func() error { _, err := objects.Patch(n.Ctx, "bad", []byte(`{"data":{"a":"b"}}`)); return err },
		"delete": func() error { _, err := objects.Delete(n.Ctx, "bad"); return err },
		"plan":   func() error { _, err := objects.Plan(n.Ctx, []string{"bad"}); return err },
		"list": func() error {
			for _, err := range objects.List(n.Ctx) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"remove a finalizer": func() error {
			_, err := force.RemoveFinalizer(n.Ctx, "bad", bus.ExampleFinalizer)
			return err
		},
	} {
		if err := do(); !unreadable(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if results, err := objects.DeleteBatch(n.Ctx, []string{"bad", "good"}, client.DryRun(true)); err != nil || !unreadable(results[0].Err) || results[1].Err != nil {
		t.Errorf("deletion of two: %v, %v", results, err)
	}
	create(n.Ctx, t, app, "another") // the writer still works
	verified(t, n)

	if _, err := objects.DeleteUnreadable(n.Ctx, "bad", "a test"); !errors.Is(err, client.ErrForbidden) {
		t.Errorf("an application deletes an unreadable object: %v", err)
	}
	if _, err := force.DeleteUnreadable(n.Ctx, "good", "a test"); !errors.Is(err, client.ErrConflict) || !strings.Contains(err.Error(), "it can be read") {
		t.Errorf("an object that can be read: %v", err)
	}
	if _, err := force.DeleteUnreadable(n.Ctx, "bad", ""); !errors.Is(err, client.ErrBadRequest) {
		t.Errorf("without a reason: %v", err)
	}
	var reply client.Reply
	if _, err := force.DeleteUnreadable(n.Ctx, "bad", "a test", client.DryRun(true)); err != nil {
		t.Errorf("a dry run: %v", err)
	}
	if _, err := force.DeleteUnreadable(n.Ctx, "bad", "a test", client.ReplyInto(&reply)); err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(reply.Warnings, "; "); !strings.Contains(said, bus.ExampleFinalizer) {
		t.Errorf("the reply does not warn of the finalizer: %q", said)
	}
	if _, err := objects.Get(n.Ctx, "bad"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("it was deleted: %v", err)
	}
	last, err := operator.Log().Last(n.Ctx)
	must.Succeed(t, err)
	commit, err := operator.Log().Commit(n.Ctx, last)
	must.Succeed(t, err)
	events := client.Events(commit, func(_, kind string) string { return kind })
	if len(events) != 1 || events[0].Type != "ObjectDeleted" || events[0].Name != "bad" || events[0].Verb != bus.VerbDeleteUnreadable ||
		events[0].Actor != bus.RoleOperator || events[0].Note != "a test" {
		t.Errorf("the log has %+v", events)
	}
	verified(t, n)
	s.Stop()
	rebuilt := n.serve(t.TempDir(), nil).writing()
	has(n.Ctx, t, app, "another", "dependent", "good") // no processor runs that would collect the dependent
	rebuilt.Stop()
}

// B8.2: if the log has a body that can be decoded, the object is not deleted; a rebuild repairs it.
func TestUnreadableStateOnly(t *testing.T) {
	t.Parallel()
	n, dir := newInstallation(t), t.TempDir()
	s := n.serve(dir, nil).writing()
	app := n.application()
	unreadableFamily(n.Ctx, t, app)
	// The last commit is that of the object: the present state is also that after this commit.
	if _, err := app.Resource(configMaps, "a").Patch(n.Ctx, "bad", []byte(`{"metadata":{"annotations":{"a":"b"}}}`)); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	must.Succeed(t, statetest.Malform(filepath.Join(dir, realm), "needle"))
	s = n.serve(dir, nil).writing()
	if _, err := app.Resource(configMaps, "a").Get(n.Ctx, "bad"); !unreadable(err) {
		t.Fatalf("the body is malformed: %v", err)
	}
	operator := n.as(bus.RoleOperator, client.WithTimeout(testkit.Timeout))
	if _, err := operator.Resource(configMaps, "a").DeleteUnreadable(n.Ctx, "bad", "a test"); !errors.Is(err, client.ErrConflict) || !strings.Contains(err.Error(), "coppice rebuild") {
		t.Fatalf("the log can be read: %v", err)
	}
	s.Stop()
	s = n.serve(t.TempDir(), nil).writing()
	if _, err := app.Resource(configMaps, "a").Get(n.Ctx, "bad"); err != nil {
		t.Errorf("after the rebuild: %v", err)
	}
	s.Stop()
}

// B8.1, B8.3: an unreadable object that is protected can be unprotected, and a policy that is
// deleted protects it no more. While a policy may cover it, its labels are needed.
func TestUnreadableProtected(t *testing.T) {
	t.Parallel()
	n, dir := newInstallation(t), t.TempDir()
	s := n.serve(dir, nil).writing()
	operator := n.as(bus.RoleOperator)
	policies, objects := operator.Resource(client.ParseResource("protectionpolicies.coppice.dev"), ""), operator.Resource(configMaps, "a")
	policy := &coppicev1.Object{
		ApiVersion: "coppice.dev/v1", Kind: "ProtectionPolicy", Metadata: &coppicev1.ObjectMeta{Name: "needles"},
		Spec: []byte(`{"kind":"ConfigMap","selector":"app=needle","reason":"production"}`),
	}
	if _, err := policies.Create(n.Ctx, policy); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, n.Ctx, "the policy to cover all objects", func() bool {
		p, err := policies.Get(n.Ctx, "needles")
		return err == nil && bytes.Contains(p.GetStatus(), []byte(`"complete":true`))
	})
	unreadableFamily(n.Ctx, t, n.application())
	if _, err := objects.Protect(n.Ctx, []string{"bad"}, "a test"); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	malformedInLog(n.Ctx, t, n, dir, "bad")
	s = n.serve(dir, nil).writing()
	protected := func(when string) {
		t.Helper()
		if _, err := objects.DeleteUnreadable(n.Ctx, "bad", "a test"); !errors.Is(err, client.ErrForbidden) || !strings.Contains(err.Error(), "is protected by") {
			t.Errorf("%s: %v", when, err)
		}
	}
	protected("protected by the operator and a policy")
	if _, err := objects.Unprotect(n.Ctx, []string{"bad"}, "a test"); !unreadable(err) {
		t.Errorf("the policy may cover the object: %v", err)
	}
	if _, err := objects.Protect(n.Ctx, []string{"good"}, "a test"); err != nil {
		t.Fatal(err)
	}
	for _, names := range [][]string{{"bad", "good"}, {"good", "bad"}} {
		if _, err := objects.Plan(n.Ctx, names, client.PlanUnprotect(true)); !unreadable(err) {
			t.Errorf("a plan for %v: %v", names, err)
		}
	}
	if _, err := policies.Delete(n.Ctx, "needles"); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, n.Ctx, "the policy to be removed", func() bool {
		_, err := policies.Get(n.Ctx, "needles")
		return errors.Is(err, client.ErrNotFound)
	})
	protected("protected by the operator")
	if _, err := objects.Protect(n.Ctx, []string{"bad"}, "another reason"); err != nil {
		t.Errorf("another reason: %v", err)
	}
	if plan, err := objects.Plan(n.Ctx, []string{"bad"}, client.PlanUnprotect(true)); err != nil || len(plan.Objects) != 1 {
		t.Errorf("the plan is %+v, %v", plan, err)
	}
	for range 2 { // B2.6: the second changes nothing
		r, err := objects.Unprotect(n.Ctx, []string{"bad"}, "a test")
		must.Succeed(t, err)
		if said := strings.Join(r[0].Warnings, "; "); !strings.Contains(said, "is not in the reply") || r[0].Object.GetMetadata().GetName() != "bad" {
			t.Errorf("the reply is %v, with the warnings %q", r[0].Object, said)
		}
	}
	if _, err := objects.DeleteUnreadable(n.Ctx, "bad", "a test"); err != nil {
		t.Error(err)
	}
	verified(t, n)
	s.Stop()
}
