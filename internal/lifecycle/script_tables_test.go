package lifecycle_test

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// table lays cells out in columns.
func table(rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // to memory
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

const custom = "example.com/custom"

// policies are the options of a DELETE that say something of dependents.
var policies = []struct {
	name    string
	options *coppicev1.DeleteOptions
}{
	{"(nil)", nil},
	{"orphanDependents=true", &coppicev1.DeleteOptions{OrphanDependents: proto.Bool(true)}},
	{"orphanDependents=false", &coppicev1.DeleteOptions{OrphanDependents: proto.Bool(false)}},
	{"Orphan", &coppicev1.DeleteOptions{PropagationPolicy: lifecycle.Orphan}},
	{"Background", &coppicev1.DeleteOptions{PropagationPolicy: lifecycle.Background}},
	{"Foreground", &coppicev1.DeleteOptions{PropagationPolicy: lifecycle.Foreground}},
}

// short spells finalizers so that a table can be read.
func short(finalizers []string) string {
	if len(finalizers) == 0 {
		return "-"
	}
	return strings.NewReplacer(custom, "custom", lifecycle.FinalizerForeground, "fg").Replace(strings.Join(finalizers, "+"))
}

// deleteTable deletes objects with each set of finalizers with each policy:
// delete-table default=OrphanDependents. A cell has the finalizers with which
// the object is marked.
func deleteTable(_ *script, a *args) string {
	deletion := lifecycle.DefaultDeletion(a.text("default"))
	rows := [][]string{{"finalizers"}}
	for _, p := range policies {
		rows[0] = append(rows[0], p.name)
	}
	for _, existing := range [][]string{
		nil, {lifecycle.FinalizerOrphan}, {lifecycle.FinalizerForeground}, {custom},
		{custom, lifecycle.FinalizerOrphan}, {custom, lifecycle.FinalizerForeground}, {lifecycle.FinalizerOrphan, custom},
	} {
		row := []string{short(existing)}
		for _, p := range policies {
			r, at := tableRealm(a, deletion, existing)
			row = append(row, deletedCell(a, r, at, p.options))
		}
		rows = append(rows, row)
	}
	return table(rows)
}

// repeatTable deletes objects twice, the second time a minute later:
// repeat-table default=DeleteDependents finalizers=(example.com/custom).
func repeatTable(_ *script, a *args) string {
	deletion, finalizers := lifecycle.DefaultDeletion(a.text("default")), a.list("finalizers")
	rows := [][]string{{"first"}}
	for _, p := range policies {
		rows[0] = append(rows[0], p.name)
	}
	for _, first := range policies {
		row := []string{first.name}
		for _, second := range policies {
			r, at := tableRealm(a, deletion, finalizers)
			once := deletedCell(a, r, at, first.options)
			if once == "removed" {
				row = append(row, "gone")
				continue
			}
			r.Clock += 60e6
			row = append(row, deletedCell(a, r, at, second.options))
		}
		rows = append(rows, row)
	}
	return table(rows)
}

// tableRealm has a kind with the default deletion policy and an object of it.
func tableRealm(a *args, deletion lifecycle.DefaultDeletion, finalizers []string) (*lifecycletest.Realm, lifecycle.Key) {
	r := lifecycletest.New()
	spec := lifecycle.KindSpec{
		Group: "example.com", Kind: "Thing", Plural: "things", Scope: lifecycle.ScopeCluster,
		Versions: []lifecycle.KindVersion{{Name: "v1", DefaultDeletion: deletion}},
	}
	created(a, r, lifecycle.Key{Kind: r.Kinds().Of(lifecycle.Group, "Kind")}, lifecycletest.Registration(spec))
	at := lifecycle.Key{Kind: r.Kinds().Resource("things.example.com")}
	created(a, r, at, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "x", Finalizers: finalizers}})
	at.Name = "x"
	return r, at
}

// created creates an object.
func created(a *args, r *lifecycletest.Realm, at lifecycle.Key, o *coppicev1.Object) uid.UID {
	a.t.Helper()
	out, err := lifecycle.Create(r.Context(), at, o)
	must.Succeed(a.t, err)
	r.Apply(out.Events)
	return out.Events[0].UID
}

// deletedCell deletes the object, and says what became of it, if all else is
// as it has to be: A5, step 3, for kinds without graceful deletion.
func deletedCell(a *args, r *lifecycletest.Realm, at lifecycle.Key, options *coppicev1.DeleteOptions) string {
	a.t.Helper()
	before, err := lifecycle.Find(r, at)
	must.Succeed(a.t, err)
	given := proto.Clone(options)
	out, err := lifecycle.Delete(r.Context(), at, "v1", options)
	must.Succeed(a.t, err)
	if options != nil && !proto.Equal(given, options) {
		return "CHANGED THE OPTIONS" // C074
	}
	r.Apply(out.Events)
	after := r.Node(before.UID)
	switch {
	case after == nil:
		if out.Code != 200 || len(out.Events) != 1 {
			return "WRONG REPLY"
		}
		return "removed"
	case out.Code != 202 || len(after.Finalizers) == 0:
		return "WRONG REPLY"
	case *after.GracePeriod != 0 || after.Generation != 2 || after.DeletionTime != lifecycletest.Start:
		return "WRONG MARK" // also the second time: generation and time stay
	case !out.Changed():
		return "unchanged"
	}
	return short(after.Finalizers)
}

// decideTable is the collector's whole decision table.
func decideTable(_ *script, _ *args) string {
	traits := []struct {
		name string
		t    lifecycle.Traits
	}{
		{"no dependents", lifecycle.Live | lifecycle.GoesAtOnce}, {"dependents", lifecycle.Live | lifecycle.HasDependents},
		{"terminating", lifecycle.Live | lifecycle.HasDependents | lifecycle.IsTerminating}, {"gone", lifecycle.HasDependents},
	}
	rows := [][]string{{"references"}}
	for _, t := range traits {
		rows[0] = append(rows[0], t.name)
	}
	all := []lifecycle.Class{lifecycle.Solid, lifecycle.Waiting, lifecycle.Dangling, lifecycle.Unknown}
	for set := range 1 << len(all) {
		var classes []lifecycle.Class
		var names []string
		for i, c := range all {
			if set&(1<<i) != 0 {
				classes, names = append(classes, c), append(names, class(c))
			}
		}
		row := []string{strings.Join(names, "+")}
		if len(classes) == 0 {
			row[0] = "none"
		}
		for _, t := range traits {
			decision := lifecycle.Decide(t.t, classes)
			slices.Reverse(classes) // the order does not matter
			if lifecycle.Decide(t.t, classes) != decision {
				row = append(row, "DEPENDS ON THE ORDER")
				continue
			}
			row = append(row, decision.String())
		}
		rows = append(rows, row)
	}
	return table(rows)
}
