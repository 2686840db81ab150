package lifecycle_test

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// graceTable deletes Pods, whose default is 30 seconds, with each grace period:
// grace-table [finalizers=(example.com/x)]. A cell is what becomes of the Pod:
// until when its agent has time, as its deletionTimestamp says, and how many
// seconds that are, as its deletionGracePeriodSeconds says.
func graceTable(_ *script, a *args) string {
	finalizers := a.list("finalizers")
	asked := []*int64{nil, proto.Int64(-3), proto.Int64(0), proto.Int64(10), proto.Int64(30), proto.Int64(60)}
	rows := [][]string{{"pod"}}
	for _, g := range asked {
		rows[0] = append(rows[0], seconds(g))
	}
	const onNode = `{"nodeName":"n"}`
	for _, pod := range []struct {
		name, spec, status string
		deleted            int64 // seconds from now
		grace              *int64
	}{
		{name: "on a node", spec: onNode},
		{name: "asks for 45", spec: `{"nodeName":"n","terminationGracePeriodSeconds":45}`},
		{name: "asks for 0", spec: `{"nodeName":"n","terminationGracePeriodSeconds":0}`},
		{name: "asks for -5", spec: `{"nodeName":"n","terminationGracePeriodSeconds":-5}`},
		{name: "asks for nonsense", spec: `{"nodeName":"n","terminationGracePeriodSeconds":"long"}`},
		{name: "on no node", spec: `{"terminationGracePeriodSeconds":45}`},
		{name: "succeeded", spec: onNode, status: `{"phase":"Succeeded"}`},
		{name: "failed", spec: onNode, status: `{"phase":"Failed"}`},
		{name: "ending, 20 of 30 left", spec: onNode, deleted: 20, grace: proto.Int64(30)},
		{name: "ending, 20 of 40 left", spec: onNode, deleted: 20, grace: proto.Int64(40)},
		{name: "ending, since 30 overdue", spec: onNode, deleted: -30, grace: proto.Int64(30)},
		{name: "marked, grace 0", spec: onNode, deleted: -5, grace: proto.Int64(0)},
		{name: "marked, no grace said", spec: onNode, deleted: -5},
	} {
		row := []string{pod.name}
		for _, g := range asked {
			r := lifecycletest.New()
			at := lifecycle.Key{Kind: r.Kinds().Resource("pods"), Namespace: "default"}
			o := &coppicev1.Object{
				Spec: []byte(pod.spec), Status: []byte(pod.status),
				Metadata: &coppicev1.ObjectMeta{Name: "x", Namespace: "default", Uid: "x", Finalizers: finalizers},
			}
			if pod.deleted != 0 {
				o.Metadata.DeletionTimestamp = timestamppb.New(r.Clock.Time())
				o.Metadata.DeletionTimestamp.Seconds += pod.deleted
				o.Metadata.DeletionGracePeriodSeconds = pod.grace
				if pod.grace == nil || *pod.grace == 0 {
					o.Metadata.Finalizers = []string{custom} // or there would be nothing to import
				}
			}
			out, err := lifecycle.Import(r.Context(), at, "", o)
			if err != nil {
				a.d.Fatalf(a.t, "%v", err)
			}
			r.Apply(out.Events)
			at.Name = "x"
			row = append(row, gracedCell(a, r, at, &coppicev1.DeleteOptions{GracePeriodSeconds: g}))
		}
		rows = append(rows, row)
	}
	return table(rows)
}

func seconds(g *int64) string {
	if g == nil {
		return "(nil)"
	}
	return fmt.Sprint(*g)
}

func gracedCell(a *args, r *lifecycletest.Realm, at lifecycle.Key, o *coppicev1.DeleteOptions) string {
	before, _ := lifecycle.Find(r, at)
	out, err := lifecycle.Delete(r.Context(), at, "", o)
	if err != nil {
		a.d.Fatalf(a.t, "%v", err)
	}
	r.Apply(out.Events)
	after := r.Node(before.UID)
	switch {
	case after == nil && out.Code == 200:
		return "removed"
	case len(out.Events) == 0 && out.Code == 202:
		return "unchanged"
	case after == nil || out.Code != 202:
		a.d.Fatalf(a.t, "code %d for %v", out.Code, after)
	}
	if wantGeneration := before.Generation + 1; !before.Terminating() && after.Generation != wantGeneration || before.Terminating() && after.Generation != before.Generation {
		a.d.Fatalf(a.t, "generation %d after %d", after.Generation, before.Generation)
	}
	return fmt.Sprintf("%s, %s", since(after.DeletionTime), seconds(after.GracePeriod))
}
