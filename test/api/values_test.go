package api_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Values that two readers could read differently, or that some could not read, are refused
// or normalised, in JSON and in protobuf.
func TestValues(t *testing.T) {
	t.Parallel()
	r := start(t)
	refs := make([]string, 1001)
	for i := range refs {
		refs[i] = fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","name":"o%d","uid":"u%d"}`, i, i)
	}
	for _, tc := range []struct{ name, verb, body, code, says string }{
		{"text in JSON", "create", "{\"objects\":[{\"metadata\":{\"name\":\"a\",\"annotations\":{\"a\":\"\xff\"}}}]}", "400", "UTF-8"},
		{"spec in JSON", "create", "{\"objects\":[{\"metadata\":{\"name\":\"a\"},\"spec\":\"\xff\"}]}", "400", "UTF-8"},
		{"patch in JSON", "patch", "{\"patches\":[{\"name\":\"a\",\"patch\":{\"spec\":\"\xff\"}}]}", "400", "UTF-8"},
		{"depth", "create", `{"objects":[{"metadata":{"name":"a"},"spec":` + strings.Repeat("[", 1001) + strings.Repeat("]", 1001) + `}]}`, "422", "spec: "},
		{"owners", "create", `{"objects":[{"metadata":{"name":"a","ownerReferences":[` + strings.Join(refs, ",") + `]}}]}`, "422", "metadata.ownerReferences: Too many"},
		{"case", "create", `{"objects":[{"metadata":{"name":"a","Finalizers":["example.com/x"]}}]}`, "400", `"Finalizers"`},
		{"grace", "delete", `{"names":["a"],"options":{"gracePeriodSeconds":"9300000000"}}`, "422", "gracePeriodSeconds"},
		{"grace of a collection", "deletecollection", `{"labelSelector":"a","options":{"gracePeriodSeconds":"9300000000"}}`, "422", "gracePeriodSeconds"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			reply := r.with(t).request(tc.verb, "_.pods.shop", tc.body)
			if code, message := reply.Header.Get(micro.ErrorCodeHeader), reply.Header.Get(micro.ErrorHeader); code != tc.code || !strings.Contains(message, tc.says) {
				t.Errorf("%s: %.300s; want %s with %q", code, message, tc.code, tc.says)
			}
		})
	}
	for name, field := range map[string]protowire.Number{"metadata": 3, "spec": 4, "status": 5, "extra": 6} {
		t.Run("protobuf "+name, func(t *testing.T) {
			t.Parallel()
			r := r.with(t)
			request := &coppicev1.ObjectsRequest{Objects: []*coppicev1.Object{{
				Metadata: &coppicev1.ObjectMeta{Name: "bad"}, Spec: []byte(`"SPEC?"`), Status: []byte(`"STATUS?"`), Extra: []byte(`{"x":"EXTRA?"}`),
			}}, Protocol: 1}
			if field == 3 {
				request.Objects[0].Metadata.Annotations = map[string]string{"a": "METADATA?"}
			}
			data, err := proto.Marshal(request)
			must.Succeed(t, err)
			mark := strings.ToUpper(name) + "?"
			data = bytes.Replace(data, []byte(mark), []byte(mark[:len(mark)-1]+"\xff"), 1)
			reply := r.request("create", "_.pods.shop", string(data), bus.HeaderContentType, bus.ContentProtobuf)
			if code, message := reply.Header.Get(micro.ErrorCodeHeader), reply.Header.Get(micro.ErrorHeader); code != "422" && code != "400" || !strings.Contains(message, "UTF-8") {
				t.Errorf("%s: %s", code, message)
			}
		})
	}
}

// If a member of a JSON object occurs twice and has a list, only the second list counts.
func TestDuplicateLists(t *testing.T) {
	t.Parallel()
	r := start(t)
	// The finalizer keeps the object, which the collector deletes because its owner does not exist.
	reply := r.request("create", "_.pods.shop", `{"objects":[{"metadata":{"name":"a","finalizers":["example.com/hold"],
		"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"o","uid":"u","controller":true,"blockOwnerDeletion":true}],
		"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"v"}]}}]}`)
	if code := reply.Header.Get(micro.ErrorCodeHeader); code != "" {
		t.Fatalf("%s: %s", code, reply.Header.Get(micro.ErrorHeader))
	}
	refs := r.Get(client.Resource{Plural: "pods"}, "shop", "a").GetMetadata().GetOwnerReferences()
	if len(refs) != 1 || refs[0].GetName() != "p" || refs[0].Controller != nil || refs[0].BlockOwnerDeletion != nil {
		t.Errorf("the owners are %v", refs)
	}
}

// resolve returns objects in the namespace of its subject, and without a namespace in any.
func TestResolveOfNamespace(t *testing.T) {
	t.Parallel()
	r := start(t)
	pods := client.Resource{Plural: "pods"}
	node := r.Create(client.Resource{Plural: "nodes"}, "", named("node"))
	secret := r.Create(pods, "secret", named("elsewhere", node))
	mine := r.Create(pods, "shop", named("mine", node))
	uids := []string{node.GetMetadata().GetUid(), secret.GetMetadata().GetUid(), mine.GetMetadata().GetUid()}
	for namespace, want := range map[string][]string{"shop": {"mine"}, "secret": {"elsewhere"}, "": {"node", "elsewhere", "mine"}} {
		reply, err := r.Resource(pods, namespace).ResolveUIDs(r.Ctx, uids, client.FollowOwners(true), client.FollowDependents(true), client.MinRevision(mine.GetMetadata().GetResourceVersion()))
		must.Succeed(t, err)
		var got []string
		for _, n := range reply.GetNodes() {
			got = append(got, n.GetObject().GetMetadata().GetName())
		}
		if !slices.Equal(got, want) {
			t.Errorf("in namespace %q: %q, want %q", namespace, got, want)
		}
	}
}
