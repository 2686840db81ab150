package console

import (
	"context"
	"net/http"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/internal/planname"
)

// deleteTime is how long a deletion by a plan waits for the reply: the graph service computes the plan again, which takes
// seconds if it is large.
const deleteTime = 30 * time.Second

// deleteObject deletes an object as a plan says, or not at all. The hash in the name of the plan covers the uids of all
// objects that the deletion affects: an object that was created again with the same name is not deleted.
func (r *realm) deleteObject(ctx context.Context, q *http.Request) (any, error) {
	var in view.Delete
	if err := readBody(q, "a deletion", &in); err != nil {
		return nil, err
	}
	n, refusal := planname.Parse(in.Plan)
	switch policy := client.PropagationPolicy(n.Policy); {
	case refusal != nil:
		return nil, badRequest("%s", refusal.Message)
	case n.More != "", policy != client.Background && policy != client.Foreground && policy != client.Orphan:
		return nil, badRequest("the plan %s is not one of the deletion of one object in the background, in the foreground or with orphans; plan again", clip(in.Plan))
	}
	if in.Object.UID == "" {
		return nil, badRequest("name the uid of the object that the plan names: another one may have its name by now")
	}
	k, namespace, err := r.kindIn(ctx, in.Object.Resource, in.Object.Namespace)
	if err != nil {
		return nil, err
	}
	d := client.Deletion{Resource: client.ResourceOf(k), Namespace: namespace, Names: []string{in.Object.Name}, Propagation: client.PropagationPolicy(n.Policy)}
	if n.HasGrace {
		period := time.Duration(n.Grace) * time.Second
		d.GracePeriod = &period
	}
	patient := r.user.client(r.name, client.WithTimeout(deleteTime), client.WithRetryTimeout(deleteTime))
	var result *client.DeleteResult
	if in.Unbound {
		o := client.DeleteOptions{Propagation: d.Propagation, GracePeriod: d.GracePeriod, UID: in.Object.UID}
		result, err = patient.Resource(d.Resource, namespace).Delete(ctx, in.Object.Name, o)
	} else {
		result, err = deletePlanned(ctx, patient, in, d)
	}
	if err != nil {
		return nil, err
	}
	m := result.Object.GetMetadata()
	done := view.Deleted{
		Object:  view.Ref{Resource: client.ResourceOf(k).String(), Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUid()},
		Pending: result.State == client.Pending, Revision: m.GetResourceVersion(), Warnings: listed(result.Warnings),
	}
	if !done.Pending { // the object is as it was before its removal
		done.Revision = result.Revision
	}
	return done, nil
}

// deletePlanned deletes an object as a plan says.
func deletePlanned(ctx context.Context, c *client.Client, in view.Delete, d client.Deletion) (*client.DeleteResult, error) {
	stored, err := c.Resource(d.Resource, d.Namespace).Get(ctx, in.Object.Name, client.IncludeUninitialized(true))
	if err != nil {
		return nil, err
	}
	if uid := stored.GetMetadata().GetUid(); uid != in.Object.UID {
		was := in.Object.UID
		in.Object.UID = uid
		return nil, anotherUID(in.Object, was)
	}
	results, err := c.DeletePlanned(ctx, in.Plan, []client.Deletion{d})
	switch {
	case err != nil:
		return nil, err
	case len(results) != 1:
		return nil, &client.Error{Reason: client.ErrInternalError, Message: "the graph service has replied with no result; look at the object to see whether it was deleted"}
	}
	return &results[0], results[0].Err
}

// listed returns a list that is not null in JSON.
func listed(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
