package fake_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var (
	deployments = client.Resource{Group: "apps", Plural: "deployments"}
	replicaSets = client.Resource{Group: "apps", Plural: "replicasets"}
	pods        = client.Resource{Plural: "pods"}
	configMaps  = client.Resource{Plural: "configmaps"}
	namespaces  = client.Resource{Plural: "namespaces"}
	sites       = client.Resource{Group: "example.com", Plural: "sites"}
)

// world is a realm of which everything is reported as text, without what differs from one
// realm to another: uids are numbered in the order in which they are seen, and times and
// revisions only reported to be there.
type world struct {
	t    *testing.T
	ctx  context.Context
	c    client.Interface
	uids map[string]string
}

func newWorld(t *testing.T, ctx context.Context, c client.Interface) *world {
	t.Helper()
	return &world{t: t, ctx: ctx, c: c, uids: map[string]string{}}
}

func (w *world) uid(u string) string {
	if u == "" {
		return ""
	}
	if w.uids[u] == "" {
		w.uids[u] = fmt.Sprintf("uid-%d", len(w.uids)+1)
	}
	return w.uids[u]
}

// object returns an object as text.
func (w *world) object(o *client.Object) string {
	if o == nil {
		return "none"
	}
	m := o.GetMetadata()
	text := fmt.Sprintf("%s %s %s/%s %s generation %d", o.GetApiVersion(), o.GetKind(), m.GetNamespace(), m.GetName(), w.uid(m.GetUid()), m.GetGeneration())
	text += fmt.Sprintf(" revision:%t created:%t", m.GetResourceVersion() != 0, m.GetCreationTimestamp() != nil)
	if m.GetDeletionTimestamp() != nil {
		text += " terminating"
	}
	if m.DeletionGracePeriodSeconds != nil {
		text += fmt.Sprintf(" grace:%d", m.GetDeletionGracePeriodSeconds())
	}
	if len(m.GetFinalizers()) > 0 {
		text += fmt.Sprintf(" finalizers:%v", m.GetFinalizers())
	}
	for _, r := range m.GetOwnerReferences() {
		text += fmt.Sprintf(" owner:%s/%s(%s,%t,%t)", r.GetKind(), r.GetName(), w.uid(r.GetUid()), r.GetController(), r.GetBlockOwnerDeletion())
	}
	if p := m.GetProtection(); p != nil {
		text += fmt.Sprintf(" protected:%s,%s,%t,%v", p.GetReason(), p.GetActor(), p.GetTime() != nil, p.GetPolicies())
	}
	for _, i := range m.GetInitializers().GetPending() {
		text += " initializer:" + i.GetName()
	}
	maps, err := json.Marshal([]any{m.GetLabels(), m.GetAnnotations()})
	must.Succeed(w.t, err)
	return text + fmt.Sprintf(" %s spec:%s status:%s extra:%s", maps, o.GetSpec(), o.GetStatus(), o.GetExtra())
}

// revisions are the numbers in messages that differ between realms.
var revisions = regexp.MustCompile(`(have|want|revision)(:? )\d+\b`)

// times are the times in messages.
var times = regexp.MustCompile(`\d{4}-\d{2}-\d{2}T[0-9:]+Z`)

// failure returns an error as text.
func (w *world) failure(err error) string {
	var e *client.Error
	if !errors.As(err, &e) {
		return fmt.Sprintf("error %v", err)
	}
	text := fmt.Sprintf("%s: %s [%s %s %s %d] %v", e.Reason, e.Message, e.Resource, e.Namespace, e.Name, e.Index, e.Causes)
	for u, name := range w.uids {
		text = strings.ReplaceAll(text, u, name)
	}
	return times.ReplaceAllString(revisions.ReplaceAllString(text, "$1$2 N"), "T")
}

// reply returns the result of a call with an object as text.
func (w *world) reply(o *client.Object, err error) string {
	if err != nil {
		return w.failure(err)
	}
	return w.object(o)
}

// results returns the results of a batch as text.
func (w *world) results(list []client.Result, err error) string {
	if err != nil {
		return w.failure(err)
	}
	var lines []string
	for _, r := range list {
		if r.Err != nil {
			lines = append(lines, w.failure(r.Err))
			continue
		}
		lines = append(lines, fmt.Sprintf("created:%t %v %s", r.Created, r.Warnings, w.object(r.Object)))
	}
	return strings.Join(lines, "\n")
}

// deleted returns the results of deletions as text.
func (w *world) deleted(list []client.DeleteResult, err error) string {
	if err != nil {
		return w.failure(err)
	}
	var lines []string
	for _, r := range list {
		if r.Err != nil {
			lines = append(lines, w.failure(r.Err))
			continue
		}
		lines = append(lines, fmt.Sprintf("%s %v %s", r.State, r.Warnings, w.object(r.Object)))
	}
	return strings.Join(lines, "\n")
}

// state returns all objects as text, and whether external finalizers and agents have work.
func (w *world) state() string {
	var lines []string
	for _, r := range []client.Resource{namespaces, deployments, replicaSets, pods, configMaps, sites} {
		for o, err := range w.c.Resource(r, "").List(w.ctx, client.IncludeUninitialized(true)) {
			if errors.Is(err, client.ErrUnknownKind) {
				lines = append(lines, r.String()+" are not registered")
				break
			}
			must.Succeed(w.t, err)
			lines = append(lines, w.object(o))
		}
	}
	return strings.Join(lines, "\n")
}

// work returns the pending work of external finalizers and agents as text.
func (w *world) work() string {
	s, err := w.c.Status(w.ctx)
	must.Succeed(w.t, err)
	text := fmt.Sprintf("idle:%t", s.GetIdle())
	for _, p := range s.GetPending() {
		text += fmt.Sprintf(" %s:%d", p.GetType(), p.GetRows())
	}
	return text
}

// plan returns a plan as text.
func (w *world) plan(p *client.Plan, err error) string {
	if err != nil {
		return w.failure(err)
	}
	lines := []string{fmt.Sprintf("%v", p.GetCounts())}
	for _, o := range p.GetObjects() {
		text := fmt.Sprintf("%s %s/%s %s %s requested:%t because:%s", o.GetResource(), o.GetNamespace(), o.GetName(), w.uid(o.GetUid()), o.GetOutcome(), o.GetRequested(), w.uid(o.GetBecause()))
		for _, r := range o.GetReferences() {
			text += " loses:" + r.GetName()
		}
		for _, b := range o.GetBlockers() {
			text += fmt.Sprintf(" %s:%s:%d", b.GetType(), times.ReplaceAllString(b.GetName(), "T"), b.GetCount())
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}

// graph returns a graph as text.
func (w *world) graph(g *client.Graph, err error) string {
	if err != nil {
		return w.failure(err)
	}
	lines := []string{fmt.Sprintf("truncated:%t", g.GetTruncated())}
	for _, n := range g.GetNodes() {
		text := fmt.Sprintf("%s %s requested:%t dependents:%d/%d contents:%d", n.GetResource(), w.object(n.GetObject()), n.GetRequested(), n.GetDependents(), n.GetBlockingDependents(), n.GetContents())
		if len(n.GetProtected()) > 0 {
			text += fmt.Sprintf(" protected:%q", n.GetProtected())
		}
		for _, c := range n.GetConditions() {
			text += fmt.Sprintf(" %s:%s %s (%s)", c.GetType(), c.GetStatus(), c.GetReason(), c.GetMessage())
		}
		for _, o := range n.GetOwners() {
			text += fmt.Sprintf(" %s (%s)", o.GetClass(), revisions.ReplaceAllString(o.GetWhy(), "$1$2 N"))
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}

// initializers returns pending initializers.
func initializers(names ...string) *coppicev1.Initializers {
	in := &coppicev1.Initializers{}
	for _, name := range names {
		in.Pending = append(in.Pending, &coppicev1.Initializer{Name: name})
	}
	return in
}
