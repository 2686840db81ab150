package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/tree"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Explain explains the object of a kind with a name. If the object does not exist and the
// log does not mention it, the error is client.ErrNotFound.
func Explain(ctx context.Context, r *lookup.Reader, k client.Kind, namespace, name string) (*Explanation, error) {
	e := &explainer{Reader: r, kind: k, consumers: r.Consumers()}
	e.Explanation = Explanation{Resource: client.ResourceOf(k).String(), Namespace: namespace, Name: name}
	o, n, above, err := e.look(ctx, name)
	switch {
	case errors.Is(err, client.ErrNotFound):
		err = e.removed(ctx, "", err)
	case err == nil:
		err = e.present(ctx, o, n, above)
	}
	if err != nil {
		return nil, err
	}
	return &e.Explanation, nil
}

// Removal explains from the log why the object with a uid does not exist, although there may be another one with its
// name now. If the log does not mention its removal, the error is client.ErrNotFound.
func Removal(ctx context.Context, r *lookup.Reader, k client.Kind, namespace, name, uid string) (*Explanation, error) {
	e := &explainer{Reader: r, kind: k, consumers: r.Consumers()}
	e.Explanation = Explanation{Resource: client.ResourceOf(k).String(), Namespace: namespace, Name: name}
	missing := &client.Error{Reason: client.ErrNotFound, Message: fmt.Sprintf("%s/%s with uid %s does not exist", e.Resource, name, uid)}
	if err := e.removed(ctx, uid, missing); err != nil {
		return nil, err
	}
	return &e.Explanation, nil
}

// explainer collects an explanation.
type explainer struct {
	*lookup.Reader
	Explanation
	kind      client.Kind
	consumers *lookup.Consumers

	mark       uint64          // the revision at which the object was marked, 0 if that is not known
	dependents map[string]bool // by uid
}

// look reads an object, its relations, and all owners above it.
func (e *explainer) look(ctx context.Context, name string) (*coppicev1.Object, *coppicev1.GraphNode, *tree.Family, error) {
	objects := e.Client().Resource(client.ResourceOf(e.kind), e.Namespace)
	o, err := objects.Get(ctx, name, client.IncludeUninitialized(true))
	if err != nil {
		return nil, nil, nil, err
	}
	n, above, err := e.Above(ctx, objects, name, o.GetMetadata().GetResourceVersion())
	if err == nil {
		err = e.AllUsers(ctx, n)
	}
	return o, n, above, err
}

// present explains an object that exists. n has its relations, and above its owners.
func (e *explainer) present(ctx context.Context, o *coppicev1.Object, n *coppicev1.GraphNode, above *tree.Family) error {
	m := n.GetObject().GetMetadata()
	e.UID, e.State = m.GetUid(), Active
	e.owners(n, above, 0, map[string]bool{})
	e.Dependents = &Dependents{All: n.GetDependents(), Blocking: n.GetBlockingDependents(), Unmarked: n.GetPending().GetUnexamined()}
	for i, row := range lookup.UseRows(n) {
		u := m.GetUses()[i]
		e.Uses = append(e.Uses, Use{Object: lookup.UsedName(u), Namespace: u.GetNamespace(), State: row[1]})
	}
	e.Users = n.GetUsers()
	for _, u := range n.GetUsedBy() {
		name := u.GetResource() + "/" + u.GetName()
		if m.GetNamespace() != "" {
			name = lookup.UserName(n, u)
		}
		e.UsedBy = append(e.UsedBy, name)
	}
	if m.GetDeletionTimestamp() != nil {
		e.State = Terminating
		since := printing.DeletionBegan(m)
		e.Since = &since
		e.marked(ctx, m)
	}
	for _, c := range n.GetConditions() {
		is := Condition{Type: c.GetType(), Status: c.GetStatus(), Reason: c.GetReason(), Message: c.GetMessage()}
		if c.GetSince() != 0 {
			since := time.UnixMicro(c.GetSince()).UTC()
			is.Since = &since
		}
		e.Conditions = append(e.Conditions, is)
	}
	if m.GetExpiresAt() != nil {
		at := m.GetExpiresAt().AsTime()
		e.ExpiresAt = &at
	}
	for _, is := range n.GetNotices() {
		e.Notices = append(e.Notices, Notice{
			Policy: is.GetPolicy(), Given: time.UnixMicro(is.GetGiven()).UTC(), Ends: time.UnixMicro(is.GetEnds()).UTC(), Due: moment(is.GetDue()),
			AnsweredBy: is.GetAnsweredBy(), Reason: is.GetReason(), VetoUntil: moment(is.GetVetoUntil()),
		})
	}
	e.noticeTexts = lookup.Notices(n, e.Now())
	if err := e.expiryPolicies(ctx, o); err != nil {
		return err
	}
	e.Protected, e.WaitsForProtected = cmp.Or(n.GetProtectedBy(), printing.ProtectedBy(m.GetProtection())), n.GetProtected()
	e.finalizersAndAgent(ctx, o, n)
	e.Contents = e.consumers.Remaining(ctx, n)
	e.contents = lookup.RemainingRows(n, e.Contents)
	if n.GetAwaitedGeneration() > n.GetObservedGeneration() {
		e.Generation = &Generation{n.GetAwaitedGeneration(), n.GetObservedGeneration()}
	}
	if n.GetImportEnds() != 0 {
		ends := time.UnixMicro(n.GetImportEnds()).UTC()
		e.ImportEnds = &ends
	}
	if waiting(n) && (n.GetBlockingDependents() > 0 || e.Dependents.Unmarked > 0) {
		ok, err := e.Optional(ctx, lookup.AboutBlockers, func(ctx context.Context) error { return e.blockers(ctx, n) })
		if err != nil {
			return err
		}
		if ok {
			e.late(ctx)
		}
	}
	e.pendingOf(tree.KeyOfNode(n), n.GetPending())
	for i, r := range m.GetOwnerReferences() {
		e.pendingOf(e.OwnerKey(r), n.GetOwners()[i].GetPending())
	}
	e.Summary = e.summary(n)
	return nil
}

// moment returns a time in Unix microseconds, nil for zero.
func moment(micros int64) *time.Time {
	if micros == 0 {
		return nil
	}
	t := time.UnixMicro(micros).UTC()
	return &t
}

// expiryPolicies finds the expiry policies that select an object that is not being deleted, and
// that have given no notice of its deletion.
func (e *explainer) expiryPolicies(ctx context.Context, o *coppicev1.Object) error {
	if e.State != Active {
		return nil
	}
	policies, err := e.PoliciesOf(ctx, e.kind, o)
	for _, p := range policies {
		if !slices.ContainsFunc(e.Notices, func(n Notice) bool { return n.Policy == p.Name }) {
			e.ExpiryPolicies = append(e.ExpiryPolicies, ExpiryPolicy{Policy: p.Name, Says: p.Says})
		}
	}
	return err
}
