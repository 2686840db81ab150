package manifest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

const configMap = `{"apiVersion":"v1","data":{"b":"2","a":"1"},"kind":"ConfigMap","metadata":{"name":"web","namespace":"shop",` +
	`"uid":"01890a5d-ac96-774b-bcce-b302099a8057","resourceVersion":"12","generation":3,"creationTimestamp":"2024-05-06T07:08:09Z",` +
	`"labels":{"app":"web"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":"u","controller":true,"blockOwnerDeletion":false}],` +
	`"finalizers":["example.com/bucket"],` +
	`"initializers":{"pending":[{"name":"vaccine.example.com"}],"result":{"code":500,"message":"no","status":"Failure"}}},"spec":{"big":9007199254740993},"status":[1,null]}`

func TestObjectSurvivesJSON(t *testing.T) {
	t.Parallel()
	o, err := manifest.FromJSON([]byte(configMap))
	must.Succeed(t, err)
	m := o.GetMetadata()
	if m.GetResourceVersion() != 12 || m.GetCreationTimestamp().GetSeconds() != 1714979289 || !m.GetOwnerReferences()[0].GetController() ||
		m.GetOwnerReferences()[0].BlockOwnerDeletion == nil || string(o.GetExtra()) != `{"data":{"b":"2","a":"1"}}` {
		t.Fatalf("read as %v", o)
	}
	got, err := manifest.ToJSON(o)
	must.Succeed(t, err)
	if string(got) != configMap {
		t.Errorf("written as\n%s\nwant\n%s", got, configMap)
	}
}

// ToJSON accepts an object without metadata and lists with nil elements.
func TestToJSONOfMissingParts(t *testing.T) {
	t.Parallel()
	for _, o := range []*coppicev1.Object{{}, {Metadata: &coppicev1.ObjectMeta{OwnerReferences: []*coppicev1.OwnerReference{nil}}}} {
		got, err := manifest.ToJSON(o)
		must.Succeed(t, err)
		if _, err := manifest.FromJSON(got); err != nil {
			t.Errorf("%s cannot be read: %v", got, err)
		}
	}
}

func TestFromJSONRefuses(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`[]`:                                                             "not a manifest",
		`null`:                                                           "not a manifest",
		`{"kind":3}`:                                                     "kind: must be a string, not number",
		`{"metadata":[]}`:                                                "metadata: must be an object, not array",
		`{"metadata":{"name":{}}}`:                                       "metadata.name: must be a string, not object",
		`{"metadata":{"labels":{"a":1}}}`:                                "metadata.labels",
		`{"metadata":{"finalizers":"x"}}`:                                "metadata.finalizers: must be a list, not string",
		`{"metadata":{"resourceVersion":"abc"}}`:                         `metadata.resourceVersion: "abc" is not a revision`,
		`{"metadata":{"resourceVersion":-1}}`:                            `metadata.resourceVersion: "-1" is not a revision`,
		`{"metadata":{"resourceVersion":true}}`:                          `metadata.resourceVersion: must be a string, not bool`,
		`{"metadata":{"creationTimestamp":"yesterday"}}`:                 `"yesterday" is not a timestamp`,
		`{"metadata":{"initializers":{"pending":["a"]}}}`:                "metadata.initializers.pending: must be an object, not string",
		`{"metadata":{"initializers":{"result":{"status":1}}}}`:          "metadata.initializers.result:",
		`{"metadata":{"initializers":{"result":{"failure":true}}}}`:      `unknown field "failure"`,
		`{"metadata":{"ownerReferences":[{"controller":1}]}}`:            "must be true or false, not number",
		`{"metadata":{"ownerReferences":[{"blockOwnerDeketion":true}]}}`: `metadata: unknown field "blockOwnerDeketion"`,
	} {
		if _, err := manifest.FromJSON([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("FromJSON(%s): %v, want an error with %q", in, err, want)
		}
	}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	o, err := manifest.FromJSON([]byte(configMap))
	must.Succeed(t, err)
	for _, tc := range []struct {
		m    proto.Message
		want string
	}{
		{&coppicev1.ObjectsRequest{Objects: []*coppicev1.Object{o}, DryRun: true}, `{"dryRun":true,"objects":[` + configMap + `]}`},
		{&coppicev1.PatchRequest{Patches: []*coppicev1.Patch{{Name: "web", Patch: []byte(`{"spec":null}`)}}}, `{"patches":[{"name":"web","patch":{"spec":null}}]}`},
		{&coppicev1.ObjectsReply{Results: []*coppicev1.Result{{Code: 201, Object: o}}, Revision: 7}, `{"results":[{"code":201,"object":` + configMap + `}],"revision":"7"}`},
		{&coppicev1.GetRequest{Names: []string{"web"}}, `{"names":["web"]}`},
	} {
		got, err := manifest.MarshalMessage(tc.m)
		must.Succeed(t, err)
		if !sameJSON(t, got, []byte(tc.want)) {
			t.Errorf("%T is written as\n%s\nwant\n%s", tc.m, got, tc.want)
		}
		back := tc.m.ProtoReflect().New().Interface()
		must.Succeed(t, manifest.UnmarshalMessage([]byte(tc.want), back))
		if !proto.Equal(back, tc.m) {
			t.Errorf("%s\nis read as %v\nwant       %v", tc.want, back, tc.m)
		}
	}
	if err := manifest.UnmarshalMessage([]byte(`{"objects":[{"kind":3}]}`), &coppicev1.ObjectsRequest{}); err == nil || !strings.Contains(err.Error(), "objects[0]: kind: must be a string") {
		t.Errorf("a bad object: %v", err)
	}
	if err := manifest.UnmarshalMessage([]byte(`{"objectz":[]}`), &coppicev1.ObjectsRequest{}); err == nil || !strings.Contains(err.Error(), "objectz") {
		t.Errorf("an unknown member: %v", err)
	}
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal(a, &x); err != nil {
		t.Fatalf("%s: %v", a, err)
	}
	if err := json.Unmarshal(b, &y); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}

func FuzzFromJSON(f *testing.F) {
	f.Add([]byte(configMap))
	f.Add([]byte(`{"metadata":{"name":"x"},"rules":[{}]}`))
	f.Add([]byte(`{"spec":{"a":1,"a":2},"metadata":{"ownerReferences":[{"uid":"u","controller":true}],"ownerReferences":[{"uid":"v"}],"Name":"x"}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		o, err := manifest.FromJSON(in)
		if err != nil {
			return
		}
		enc, err := manifest.ToJSON(o)
		if err != nil {
			t.Fatalf("%q was read, but is not written: %v", in, err)
		}
		again, err := manifest.FromJSON(enc)
		if err != nil || !proto.Equal(o, again) {
			t.Fatalf("%q became %q: %v, %v", in, enc, again, err)
		}
	})
}
