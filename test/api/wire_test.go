package api_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// Services are visible to `nats micro ls`, with an endpoint for each verb.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	r := start(t)
	inbox := nats.NewInbox()
	sub, err := r.Conn().SubscribeSync(inbox)
	must.Succeed(t, err)
	must.Succeed(t, r.Conn().PublishRequest("$SRV.INFO", inbox, nil))
	endpoints := map[string]string{}
	for range 3 {
		m, err := sub.NextMsg(testkit.Timeout)
		must.Succeed(t, err)
		info := decode[micro.Info](t, m.Data)
		if realm := info.Metadata["realm"]; realm != "default" && (info.Name != "coppice-realms" || realm != bus.SystemRealm) {
			t.Errorf("service %s is of realm %q", info.Name, info.Metadata["realm"])
		}
		for _, e := range info.Endpoints {
			endpoints[e.Name] = info.Name
		}
	}
	for _, verb := range bus.Verbs() {
		want := "coppice-writer"
		if slices.Contains([]string{
			bus.VerbResolve, bus.VerbWatch, bus.VerbPlan, bus.VerbConsumeFinalizer, bus.VerbConsumeAgent, bus.VerbConsumeExpiry, bus.VerbReadLog, bus.VerbReadWarnings,
			bus.VerbListConsumers, bus.VerbListFinalizers, bus.VerbWatchGraph, bus.VerbListParked, bus.VerbRetryParked, bus.VerbDropParked, bus.VerbVerify, bus.VerbArchive, bus.VerbLease,
		}, verb) {
			want = "coppice-replica"
		}
		if slices.Contains([]string{bus.VerbCreateRealm, bus.VerbDeleteRealm, bus.VerbListRealms}, verb) {
			want = "coppice-realms"
		}
		if endpoints[verb] != want {
			t.Errorf("verb %s is served by %q, want %q", verb, endpoints[verb], want)
		}
	}
}

type result struct {
	Results []struct {
		Code   int
		Object struct {
			Kind     string
			Data     map[string]string
			Metadata struct {
				Name, UID, ResourceVersion string
				Finalizers                 []string
			}
		}
		Error struct {
			Reason, Message string
		}
	}
	Revision string
}

// Requests that a shell can send with the nats command, and their replies.
func TestJSON(t *testing.T) {
	t.Parallel()
	r := start(t)
	reply := r.request("create", "_.configmaps.shop", `{"objects":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web"},"data":{"a":"1"}}]}`)
	created := decode[result](t, reply.Data)
	if len(created.Results) != 1 || created.Results[0].Code != 201 || created.Results[0].Object.Data["a"] != "1" || created.Results[0].Object.Metadata.UID == "" {
		t.Fatalf("create: %s", reply.Data)
	}
	if reply.Header.Get(bus.HeaderContentType) != bus.ContentJSON {
		t.Errorf("the reply is %q", reply.Header.Get(bus.HeaderContentType))
	}
	reply = r.request("get", "_.configmaps.shop", `{"names":["web"]}`)
	if got := decode[result](t, reply.Data); got.Results[0].Object.Metadata.UID != created.Results[0].Object.Metadata.UID {
		t.Errorf("get: %s", reply.Data)
	}
	reply = r.request("patch", "_.configmaps.shop", `{"patches":[{"name":"web","patch":{"data":{"a":null,"b":"2"}}}]}`)
	if got := decode[result](t, reply.Data); len(got.Results) != 1 || got.Results[0].Object.Data["b"] != "2" || len(got.Results[0].Object.Data) != 1 {
		t.Errorf("patch: %s", reply.Data)
	}
}

// Errors carry a code, a reason and details in the headers of a micro error.
func TestErrors(t *testing.T) {
	t.Parallel()
	r := start(t)
	for _, tc := range []struct {
		name, verb, rest, body string
		header                 []string
		code, reason           string
		says                   []string
	}{
		{name: "not found", verb: "get", rest: "_.pods.shop", body: `{"names":["x"]}`, code: "404", reason: "NotFound", says: []string{`pods "x"`, `"shop"`}},
		{name: "unknown kind", verb: "get", rest: "example_com.widgets.shop", body: `{"names":["x"]}`, code: "404", reason: "UnknownKind", says: []string{"widgets.example.com", "kind Kind"}},
		{name: "no JSON", verb: "create", rest: "_.pods.shop", body: `{"objects":`, code: "400", reason: "BadRequest", says: []string{"as JSON"}},
		{name: "unknown member", verb: "create", rest: "_.pods.shop", body: `{"object":{}}`, code: "400", reason: "BadRequest", says: []string{`"object"`}},
		{name: "nothing", verb: "create", rest: "_.pods.shop", body: `{}`, code: "400", reason: "BadRequest", says: []string{"no objects"}},
		{name: "other kind", verb: "create", rest: "_.pods.shop", body: `{"objects":[{"apiVersion":"v1","kind":"Service","metadata":{"name":"x"}}]}`, code: "400", reason: "BadRequest", says: []string{"Service", "pods"}},
		{name: "other namespace", verb: "create", rest: "_.pods.shop", body: `{"objects":[{"metadata":{"name":"x","namespace":"elsewhere"}}]}`, code: "400", reason: "BadRequest", says: []string{"elsewhere", "shop"}},
		{name: "invalid name", verb: "create", rest: "_.pods.shop", body: `{"objects":[{"metadata":{"name":"a/b"}}]}`, code: "422", reason: "Invalid", says: []string{"metadata.name"}},
		{name: "invalid owner", verb: "create", rest: "_.pods.shop", body: `{"objects":[{"metadata":{"name":"x","ownerReferences":[{"apiVersion":"v1","kind":"","name":"","uid":"a b"}]}}]}`,
			code: "422", reason: "Invalid", says: []string{"metadata.ownerReferences[0].kind", "metadata.ownerReferences[0].name", "metadata.ownerReferences[0].uid"}},
		{name: "bad command id", verb: "create", rest: "_.pods.shop", body: `{"objects":[{"metadata":{"name":"x"}}]}`, header: []string{bus.HeaderCommand, "7"}, code: "422", reason: "Invalid", says: []string{bus.HeaderCommand, "UUID"}},
		{name: "bad content type", verb: "get", rest: "_.pods.shop", body: `x`, header: []string{bus.HeaderContentType, "text/plain"}, code: "400", reason: "BadRequest", says: []string{"text/plain", bus.ContentJSON}},
		{name: "bad selector", verb: "list", rest: "_.pods.shop", body: `{"labelSelector":"a in"}`, code: "400", reason: "BadRequest", says: []string{"label selector"}},
		{name: "blank selector of a list", verb: "list", rest: "_.pods.shop", body: `{"labelSelector":" "}`, code: "400", reason: "BadRequest", says: []string{`label selector " "`, "only blanks"}},
		{name: "blank selector of a watch", verb: "watch", rest: "_.pods.shop", body: `{"labelSelector":"\t"}`, code: "400", reason: "BadRequest", says: []string{"only blanks"}},
		{name: "a page of the graph from a revision", verb: "watchgraph", rest: "_._._", body: `{"page":true,"fromRevision":"5"}`, code: "400", reason: "BadRequest", says: []string{"from_revision"}},
		{name: "continue without a page of the graph", verb: "watchgraph", rest: "_._._", body: `{"continue":"x"}`, code: "400", reason: "BadRequest", says: []string{"goes with page"}},
		{name: "the graph of a kind", verb: "watchgraph", rest: "_.pods.shop", body: `{}`, code: "400", reason: "BadRequest", says: []string{"about the realm"}},
		{name: "a token of the graph", verb: "watchgraph", rest: "_._._", body: `{"page":true,"continue":"pods:x"}`, code: "400", reason: "BadRequest", says: []string{"continue", "what a reply gave"}},
		{name: "blank selector of a deletion", verb: "deletecollection", rest: "_.pods.shop", body: `{"labelSelector":" "}`, code: "400", reason: "BadRequest", says: []string{"only blanks"}},
		{name: "blank selector and all", verb: "deletecollection", rest: "_.pods.shop", body: `{"labelSelector":" ","all":true}`, code: "400", reason: "BadRequest", says: []string{"only blanks"}},
		{name: "blank selector of a protection policy", verb: "create", rest: "coppice_dev.protectionpolicies._", body: `{"objects":[{"metadata":{"name":"x"},"spec":{"kind":"Pod","reason":"r","selector":" "}}]}`,
			code: "422", reason: "Invalid", says: []string{"spec.selector", "only blanks"}},
		{name: "blank selector of an expiry policy", verb: "create", rest: "coppice_dev.expirypolicies._", body: `{"objects":[{"metadata":{"name":"x"},"spec":{"kind":"Pod","minAge":"1h","selector":" "}}]}`,
			code: "422", reason: "Invalid", says: []string{"spec.selector", "only blanks"}},
		{name: "bad continue", verb: "list", rest: "_.pods.shop", body: `{"continue":"zzz!"}`, code: "400", reason: "BadRequest", says: []string{"continue"}},
		{name: "two policies", verb: "delete", rest: "_.pods.shop", body: `{"names":["x"],"options":{"propagationPolicy":"Orphan","orphanDependents":true}}`, code: "422", reason: "Invalid", says: []string{"propagationPolicy"}},
		{name: "all namespaces", verb: "deletecollection", rest: "_.pods._", body: `{"all":true}`, code: "400", reason: "BadRequest", says: []string{"namespace"}},
		{name: "import without session", verb: "import", rest: "_.pods.shop", body: `{"objects":[{"metadata":{"name":"x","uid":"u"}}]}`, code: "400", reason: "BadRequest", says: []string{"session"}},
		{name: "import without uid", verb: "import", rest: "_.pods.shop", body: `{"session":"s","objects":[{"metadata":{"name":"x"}}]}`, code: "422", reason: "Invalid", says: []string{"metadata.uid"}},
		{name: "watch of an unknown resource", verb: "watch", rest: "_.widgets.shop", body: `{}`, code: "404", reason: "UnknownKind", says: []string{"widgets"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			reply := r.with(t).request(tc.verb, tc.rest, tc.body, tc.header...)
			if code, reason := reply.Header.Get(micro.ErrorCodeHeader), reply.Header.Get(bus.HeaderReason); code != tc.code || reason != tc.reason {
				t.Errorf("%s %s, want %s %s", code, reason, tc.code, tc.reason)
			}
			contains(t, "the message", reply.Header.Get(micro.ErrorHeader), tc.says...)
		})
	}
}

// A request about objects names their type, and one about named objects their names.
func TestNameless(t *testing.T) {
	t.Parallel()
	r := start(t)
	named := map[string]string{
		"get": `{"names":["a",""]}`, "delete": `{"names":[""]}`, "resolve": `{"names":[""]}`, "plan": `{"delete":{"names":["a",""]}}`,
		"removefinalizer": `{"objects":[{"name":""}]}`, "forcefinalizer": `{"reason":"r"}`, "deleteunreadable": `{"reason":"r"}`,
		"protect": `{"reason":"r","objects":[{"name":"a"},{}]}`, "unprotect": `{"reason":"r","objects":[{}]}`, "veto": `{"reason":"r","agree":true}`,
		"readpast": `{"get":{"names":[""]}}`,
	}
	for verb, body := range named {
		r.refuses(t, verb, "_.pods.shop", body, "is empty; write the name of an object")
	}
	r.refuses(t, "readpast", "_.pods.shop", `{"plan":{"delete":{"names":[""]}}}`, "is empty; write the name of an object")
	r.refuses(t, "readpast", "_.pods.shop", `{"resolve":{"names":[""]}}`, "is empty; write the name of an object")
	r.refuses(t, "plan", "_.pods.shop", `{"delete":{"names":["a"],"also":[{"resource":"","names":["a"]}]}}`, "also[0].resource")
	r.refuses(t, "plan", "_.pods.shop", `{"delete":{"names":["a"],"also":[{"resource":"pods","namespace":"x","names":[""]}]}}`, "also[0].names[0] is empty")
	for verb, body := range map[string]string{
		"list": `{}`, "watch": `{}`, "deletecollection": `{"all":true}`, "readpast": `{"list":{}}`, "create": `{"objects":[{}]}`, "update": `{"objects":[{}]}`, "updatestatus": `{"objects":[{}]}`,
		"apply": `{"objects":[{}]}`, "applyacross": `{"objects":[{}]}`, "patch": `{"patches":[{"name":"a"}]}`, "import": `{"session":"s","objects":[{}]}`, "restore": `{"session":"s","objects":[{}]}`,
		"releasebrake": `{}`, "consumeagent": `{}`,
	} {
		named[verb] = body
	}
	for _, verb := range bus.Verbs() {
		if !bus.NamesType(verb) && verb != bus.VerbReadPast {
			continue
		}
		body, ok := named[verb]
		if !ok {
			t.Errorf("there is no request of the verb %s", verb)
		}
		for _, rest := range []string{"_._.shop", "apps._.shop"} {
			r.refuses(t, verb, rest, body, "names no type")
		}
	}
}

// refuses sends a request that is refused as BadRequest with this message.
func (r *realm) refuses(t *testing.T, verb, rest, body, says string) {
	t.Helper()
	if bus.NamesFinalizer(verb) {
		rest += ".example.com/x"
	}
	reply := r.with(t).request(verb, rest, body)
	if reason, message := reply.Header.Get(bus.HeaderReason), reply.Header.Get(micro.ErrorHeader); reason != "BadRequest" || !strings.Contains(message, says) {
		t.Errorf("%s %s %s: %s %q, want BadRequest that says %q", verb, rest, body, reason, message, says)
	}
}
