package traces

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	traceID = "0123456789abcdef0123456789abcdef"
	rootID  = "0123456789abcdef"
	bucket  = "example.com/bucket"
)

// family returns the manifest of an owner with dependents, of which one has a dependent with an external finalizer.
func family(dependents int) string {
	var b strings.Builder
	object := func(name, uid, more string) {
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: shop, uid: %s%s}\n", name, uid, more)
	}
	owner := func(name, uid string) string {
		return fmt.Sprintf(", ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: %s, uid: %s, blockOwnerDeletion: true}]", name, uid)
	}
	object("owner", "u-owner", "")
	for i := range dependents {
		object(fmt.Sprint("d-", i), fmt.Sprint("u-", i), owner("owner", "u-owner"))
	}
	object("leaf", "u-leaf", owner("d-0", "u-0")+", finalizers: ["+bucket+"]")
	return b.String()
}

// One trace has a whole cascade, over five processes, of which one exports over gRPC, and a program without an SDK that
// passes the trace on.
func TestCascade(t *testing.T) {
	r := newReceiver(t)
	export := func(name string) []string {
		// Exported at once: the test waits for the spans.
		settings := []string{"OTEL_BSP_SCHEDULE_DELAY=100"}
		if name == "processor" {
			return append(settings, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.grpc, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
		}
		return append(settings, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.http)
	}
	i := install(t, export)
	i.coppice(nil, family(300), "import", "-f", "-")
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	finalized := make(chan error, 1)
	go func() { finalized <- i.finalizer(ctx, bucket) }()
	i.coppice(append(export("coppice"), "TRACEPARENT=00-"+traceID+"-"+rootID+"-01"), "",
		"delete", "configmaps/owner", "-n", "shop", "--cascade=foreground", "--wait")
	if err := <-finalized; err != nil {
		t.Fatalf("the finalizer: %v", err)
	}

	want := []string{
		"coppice: coppice delete", "coppice: delete configmaps", "coppice-graph: delete configmaps", "coppice-graph: commit", "coppice-graph: publish",
		"coppice-processor: process", "coppice-graph: resolve", "coppice-graph: propose", "coppice-finalizers: process", "coppice-graph: finish",
		"coppice-graph: removefinalizer configmaps",
	}
	spans := map[string]span{}
	missing := want
	for len(missing) > 0 {
		spans = r.trace(traceID)
		missing = slices.DeleteFunc(slices.Clone(want), func(name string) bool {
			for _, s := range spans {
				if s.service+": "+s.Name() == name {
					return true
				}
			}
			return false
		})
		if len(missing) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("of %d spans, these are missing: %q", len(spans), missing)
		case <-time.After(50 * time.Millisecond):
		}
	}

	// Spans that ended later may have arrived later.
	orphans := func() []string {
		var list []string
		for _, s := range spans {
			if _, there := spans[s.ParentSpanID().String()]; !there && s.ParentSpanID().String() != rootID {
				list = append(list, s.service+": "+s.Name())
			}
		}
		return list
	}
	for len(orphans()) > 0 {
		select {
		case <-ctx.Done():
			t.Fatalf("the parents of these spans are not in the trace: %q", orphans())
		case <-time.After(50 * time.Millisecond):
		}
		spans = r.trace(traceID)
	}
	parents := map[string]string{
		"coppice-graph: delete configmaps": "coppice: delete configmaps", "coppice-graph: commit": "coppice-graph: ", "coppice-graph: publish": "coppice-graph: ",
		"coppice-processor: process": "coppice-graph: publish", "coppice-graph: resolve": "coppice-processor: process", "coppice-graph: propose": "coppice-processor: process",
		"coppice-finalizers: process": "coppice-graph: publish", "coppice-graph: finish": "coppice-finalizers: process",
		"coppice-graph: removefinalizer configmaps": "coppice-graph: publish",
	}
	events, commits := 0, 0
	for _, s := range slices.Collect(maps.Values(spans)) {
		name := s.service + ": " + s.Name()
		if parent := spans[s.ParentSpanID().String()]; parents[name] != "" && !strings.HasPrefix(parent.service+": "+parent.Name(), parents[name]) {
			t.Errorf("the parent of %q is %q, want %q", name, parent.service+": "+parent.Name(), parents[name])
		}
		if name == "coppice-graph: commit" {
			commits++
			var n int
			if _, err := fmt.Sscan(s.attribute("coppice.events"), &n); err != nil {
				t.Errorf("a commit has coppice.events %q: %v", s.attribute("coppice.events"), err)
			}
			events += n
		}
	}
	// Each object but the leaf's parent is marked or removed in the foreground: at least one event for each.
	if commits < 3 || events < 300 {
		t.Errorf("the trace has %d commits with %d events; the cascade has 302 objects", commits, events)
	}
}

// Without a variable of OpenTelemetry nothing is exported, and neither is with those that switch it off. A mistake is
// reported, and does not prevent the command.
func TestOff(t *testing.T) {
	r := newReceiver(t)
	i := install(t, func(string) []string {
		return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.http, "OTEL_SDK_DISABLED=true"}
	})
	for _, environment := range [][]string{
		{"OTEL_SERVICE_NAME=other"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.http, "OTEL_TRACES_EXPORTER=none"},
	} {
		if out := i.coppice(environment, "", "get", "configmaps", "-n", "shop"); strings.Contains(out, "OpenTelemetry") {
			t.Errorf("%v: %s", environment, out)
		}
	}
	for _, environment := range [][]string{
		{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.http, "OTEL_TRACES_EXPORTER=zipkin"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.http, "OTEL_EXPORTER_OTLP_PROTOCOL=http/json"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + freeAddress(t)},
	} {
		if out := i.coppice(environment, "", "get", "configmaps", "-n", "shop"); !strings.Contains(out, "OpenTelemetry") {
			t.Errorf("%v is not reported: %s", environment, out)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.spans) > 0 {
		t.Errorf("%d spans were exported", len(r.spans))
	}
}
