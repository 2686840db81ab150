package changes

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

func TestChangesOf(t *testing.T) {
	t.Parallel()
	yes := true
	was := &coppicev1.Object{
		Spec: []byte(`{"a":1}`), Extra: []byte(`{"data":{},"old":1}`),
		Metadata: &coppicev1.ObjectMeta{
			Name: "a", Finalizers: []string{"x/a", "x/b"}, Labels: map[string]string{"a": "b"},
			OwnerReferences: []*coppicev1.OwnerReference{{Kind: "d", Name: "web", Uid: "1"}, {Kind: "d", Name: "api", Uid: "2"}},
		},
	}
	uninitialized := proto.Clone(was).(*coppicev1.Object)
	uninitialized.Metadata.OwnerReferences = nil
	uninitialized.Metadata.Initializers = &coppicev1.Initializers{Pending: []*coppicev1.Initializer{{Name: "i"}, {Name: "j"}}}
	for _, tc := range []struct {
		name   string
		was    *coppicev1.Object // as above, if nil
		typ    string
		reason coppicev1.Reason
		change func(*coppicev1.Object)
		want   string
	}{
		{"nothing", nil, Modified, coppicev1.Reason_REASON_REQUESTED, func(*coppicev1.Object) {}, ""},
		{"added", nil, Added, 0, func(*coppicev1.Object) {}, "owned by d/web; owned by d/api"},
		{"added while it is being deleted", nil, Added, 0, func(o *coppicev1.Object) {
			o.Metadata.OwnerReferences, o.Metadata.DeletionTimestamp = nil, timestamppb.Now()
		}, "Terminating (x/a, x/b)"},
		{"deleted", nil, Deleted, coppicev1.Reason_REASON_OWNER_ABSENT, func(*coppicev1.Object) {}, "no object matches its owner references"},
		{"deleted by a client", nil, Deleted, coppicev1.Reason_REASON_REQUESTED, func(*coppicev1.Object) {}, ""},
		{"marked", nil, Modified, coppicev1.Reason_REASON_REQUESTED, func(o *coppicev1.Object) {
			o.Metadata.DeletionTimestamp = timestamppb.Now()
			o.Metadata.Finalizers = append(o.Metadata.Finalizers, "foregroundDeletion")
		}, "marked for deletion, in the foreground"},
		{"marked, orphaning", nil, Modified, coppicev1.Reason_REASON_OWNER_WAITING, func(o *coppicev1.Object) {
			o.Metadata.DeletionTimestamp = timestamppb.Now()
			o.Metadata.Finalizers = append(o.Metadata.Finalizers, "orphan")
		}, "marked for deletion, orphaning its dependents; its owner was deleting in the foreground"},
		{"marked, with its contents", nil, Modified, coppicev1.Reason_REASON_CONTAINER, func(o *coppicev1.Object) {
			o.Metadata.DeletionTimestamp = timestamppb.Now()
			o.Metadata.Finalizers = append(o.Metadata.Finalizers, "foregroundDeletion", "coppice.dev/contents")
		}, "marked for deletion, in the foreground, with what is in it; its namespace was being deleted, or its kind withdrawn"},
		{"finalizers", nil, Modified, coppicev1.Reason_REASON_FINALIZED, func(o *coppicev1.Object) { o.Metadata.Finalizers = []string{"x/b", "x/c"} },
			"finalizer x/a removed; finalizer x/c added; nothing blocked it any more"},
		{"owners", nil, Modified, coppicev1.Reason_REASON_SOLID_OWNER_REMAINS, func(o *coppicev1.Object) {
			o.Metadata.OwnerReferences = o.Metadata.OwnerReferences[1:]
		}, "owner d/web removed; another owner remains"},
		{"references", nil, Modified, coppicev1.Reason_REASON_REQUESTED, func(o *coppicev1.Object) {
			o.Metadata.OwnerReferences[0].BlockOwnerDeletion = &yes
			o.Metadata.OwnerReferences[1].Controller = &yes
			o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, &coppicev1.OwnerReference{Kind: "d", Name: "new", Uid: "3"})
		}, "owner d/web: blockOwnerDeletion true; owner d/api: controller true; owner d/new added"},
		{"content", nil, Modified, coppicev1.Reason_REASON_REQUESTED, func(o *coppicev1.Object) {
			o.Metadata.Labels, o.Metadata.Annotations = nil, map[string]string{"x": "y"}
			o.Spec, o.Status, o.Extra = nil, []byte(`{}`), []byte(`{"data":{"x":1},"new":1}`)
		}, "labels, annotations, spec, status, data, old, new changed"},
		{"added uninitialized", uninitialized, Added, 0, func(*coppicev1.Object) {}, "Initializing (i, j)"},
		{"initializer", uninitialized, Modified, coppicev1.Reason_REASON_REQUESTED, func(o *coppicev1.Object) {
			o.Metadata.Initializers.Pending = o.Metadata.Initializers.Pending[1:]
		}, "initializer i removed"},
		{"initialized", uninitialized, Modified, coppicev1.Reason_REASON_REQUESTED, func(o *coppicev1.Object) { o.Metadata.Initializers = nil },
			"initializer i removed; initializer j removed"},
		{"initialization failed", uninitialized, Modified, coppicev1.Reason_REASON_REQUESTED, func(o *coppicev1.Object) {
			o.Metadata.Initializers.Result = &coppicev1.Status{Status: "Failure", Message: "no"}
		}, "initialization failed: no"},
		{"deleted uninitialized", uninitialized, Deleted, coppicev1.Reason_REASON_INITIALIZATION_FAILED, func(*coppicev1.Object) {}, "its initialization failed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.was == nil {
				tc.was = was
			}
			is := proto.Clone(tc.was).(*coppicev1.Object)
			tc.change(is)
			got := Of(Change{Typ: tc.typ, Was: tc.was, Object: is, Reason: tc.reason},
				func(r *coppicev1.OwnerReference) string { return r.GetKind() + "/" + r.GetName() })
			if said := strings.Join(got, "; "); said != tc.want {
				t.Errorf("said %q, want %q", said, tc.want)
			}
		})
	}
}
