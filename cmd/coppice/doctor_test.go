package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/admin"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	teststack "github.com/coppice-gc/coppice/internal/testkit/stack"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
)

// doctorFinding is a finding of coppice doctor -o json.
type doctorFinding struct{ Check, Subject, Status, Found, Do string }

// examined runs coppice doctor, and returns its findings. Its exit code is 1 if one of them needs attention.
func examined(t *testing.T, args ...string) (list []doctorFinding) {
	t.Helper()
	var out, errs strings.Builder
	code := Main(append([]string{"doctor", "-o", "json", "--timeout", testkit.Timeout.String()}, args...), strings.NewReader(""), &out, &errs)
	if err := json.Unmarshal([]byte(out.String()), &list); err != nil {
		t.Fatalf("doctor %v: %v: %s%s", args, err, out.String(), errs.String())
	}
	want := 0
	for _, f := range list {
		if f.Status == "attention" {
			want = 1
			if f.Do == "" {
				t.Errorf("%s of %s: %s: it does not say what to do", f.Check, f.Subject, f.Found)
			}
		}
	}
	if code != want {
		t.Errorf("doctor %v: exit code %d, want %d: %v", args, code, want, list)
	}
	return list
}

// needs fails unless the findings that need attention are these: check, subject and the beginning of what was found.
func needs(t *testing.T, list []doctorFinding, want ...string) {
	t.Helper()
	var got []string
	for _, f := range list {
		if f.Status == "attention" {
			got = append(got, f.Check+" of "+f.Subject+": "+f.Found)
		}
	}
	missing := false
	for _, w := range want {
		found := false
		for _, g := range got {
			found = found || strings.Contains(g, w)
		}
		missing = missing || !found
	}
	if missing || len(got) != len(want) {
		t.Errorf("attention is needed by\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// has fails unless a check has this status.
func has(t *testing.T, list []doctorFinding, check, status string) {
	t.Helper()
	for _, f := range list {
		if f.Check == check && f.Status == status {
			return
		}
	}
	t.Errorf("no check %s is %s: %v", check, status, list)
}

// A healthy installation needs no attention, and each fault of its streams, finalizers and permissions is found.
func TestDoctor(t *testing.T) {
	t.Parallel()
	s := teststack.Start(t, allinone.Config{Auth: true, Port: -1})
	service := httptest.NewServer(fakeService("scanner", "", ""))
	t.Cleanup(service.Close)
	as := func(role string) []string {
		return []string{"--server", s.Services.Server().URL(), "--user", role, "--password", s.Services.Server().Password(role), "--actor", role, "--service", service.URL}
	}
	list := examined(t, as(bus.RoleAdmin)...)
	needs(t, list)
	for _, check := range []string{"server", "version", "messages", "service", "streams", "writer", "work", "workers", "parked", "brakes", "warnings", "finalizers", "disk", "archive"} {
		has(t, list, check, "ok")
	}
	has(t, list, "sync", "not examined")
	list = examined(t, as(bus.RoleOperator)...)
	needs(t, list)
	has(t, list, "streams", "not examined")
	needs(t, examined(t, as(bus.RoleApplication)...), "permissions of : the NATS user may not listrealms")

	js := s.JetStream(bus.RoleGraph)
	change := func(name string, edit func(*jetstream.StreamConfig)) {
		t.Helper()
		stream, err := js.Stream(s.Ctx, name)
		must.Succeed(t, err)
		c := stream.CachedInfo().Config
		edit(&c)
		_, err = js.UpdateStream(s.Ctx, c)
		must.Succeed(t, err)
	}
	change(bus.LogStream(bus.DefaultRealm), func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour })
	change(bus.WorkStream(bus.DefaultRealm), func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld })
	created := s.Create(client.Resource{Plural: "configmaps"}, "a", teststack.Finalized("held", bus.ExampleFinalizer))
	s.Delete(client.Resource{Plural: "configmaps"}, "a", created.GetMetadata().GetName())
	needs(t, examined(t, as(bus.RoleAdmin)...),
		"streams of coppice-default-log: ", "streams of coppice-default-work: discard is DiscardOld, and must be DiscardNew",
		"finalizers of default: 1 objects wait for "+bus.ExampleFinalizer+"; its program: none")
}

// fakeService is a service: what it waits for, and its metrics.
func fakeService(name, waits, metrics string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(admin.ServiceHeader, name)
		switch {
		case r.URL.Path == "/metrics":
			_, _ = fmt.Fprint(w, metrics)
		case waits != "":
			http.Error(w, waits, http.StatusServiceUnavailable)
		default:
			_, _ = fmt.Fprintln(w, "ready")
		}
	})
}

// fakeRealms answers requests about realms, by verb.
func fakeRealms(t *testing.T, replies map[string]func(*coppicev1.StatusRequest) proto.Message) (url string, js jetstream.JetStream) {
	t.Helper()
	server := testkit.NATS(t)
	js = testkit.JetStream(t, server, bus.RoleGraph)
	must.Succeed(t, bus.EnsureStreams(testkit.Context(t), js, bus.DefaultRealm, 1))
	_, err := js.CreateStream(testkit.Context(t), bus.LogConfig(bus.DefaultRealm, 1))
	must.Succeed(t, err)
	nc := testkit.Conn(t, server, bus.RoleAnswers)
	for verb, reply := range replies {
		realm := bus.DefaultRealm
		if verb == bus.VerbListRealms {
			realm = bus.SystemRealm
		}
		_, err := nc.Subscribe(bus.APIPattern(realm, verb), func(m *nats.Msg) {
			var r coppicev1.StatusRequest
			if err := proto.Unmarshal(m.Data, &r); err != nil {
				t.Error(err)
			}
			data, err := proto.Marshal(reply(&r))
			must.Succeed(t, err)
			if err := m.Respond(data); err != nil {
				t.Error(err)
			}
		})
		must.Succeed(t, err)
	}
	must.Succeed(t, nc.Flush())
	return server.URL(), js
}

// Each fault of realms that a graph service reports is found.
func TestDoctorFindsFaultsOfRealms(t *testing.T) {
	t.Parallel()
	hours := func(n int) int64 { return time.Now().Add(-time.Duration(n) * time.Hour).UnixMicro() }
	realm := &coppicev1.Realm{Name: bus.DefaultRealm, State: coppicev1.RealmState_REALM_STATE_ACTIVE, Writer: "host/1"}
	status := &coppicev1.StatusReply{Pending: []*coppicev1.PendingWork{
		{Type: "blocked", Rows: 1, Oldest: hours(3)}, {Type: "unknown", Rows: 1, Oldest: hours(30)}, {Type: "evaluate", Rows: 1, Oldest: hours(0)},
	}}
	storage := &coppicev1.Storage{DiskBytes: 100, DiskFreeBytes: 10, Archived: true, ArchiveError: "connection refused"}
	var parked []*coppicev1.ParkedWork
	var waiting []*coppicev1.Realm
	warnings := []*coppicev1.Warning{
		{Reason: "LogDamaged", Message: "the log is broken at sequence 3", Time: hours(0)}, {Reason: "DiskFilling", Message: "it was full", Time: hours(1)},
		{Reason: "OwnerRefUnresolvable", Resource: "pods", Name: "a", Uid: "x", Time: hours(0)},
	}
	replies := map[string]func(*coppicev1.StatusRequest) proto.Message{
		bus.VerbListRealms: func(*coppicev1.StatusRequest) proto.Message {
			return &coppicev1.ListRealmsReply{Realms: append([]*coppicev1.Realm{realm}, waiting...)}
		},
		bus.VerbStatus: func(r *coppicev1.StatusRequest) proto.Message {
			if r.GetStorage() {
				return &coppicev1.StatusReply{Storage: storage}
			}
			return status
		},
		bus.VerbListParked: func(*coppicev1.StatusRequest) proto.Message { return &coppicev1.ListParkedReply{Parked: parked} },
		bus.VerbBrakes: func(*coppicev1.StatusRequest) proto.Message {
			return &coppicev1.BrakesReply{Brakes: []*coppicev1.BrakeStatus{{Resource: "pods", Tripped: hours(1)}}}
		},
		bus.VerbReadWarnings: func(*coppicev1.StatusRequest) proto.Message {
			return &coppicev1.WarningBatch{Warnings: warnings, End: true}
		},
		bus.VerbListFinalizers: func(*coppicev1.StatusRequest) proto.Message { return &coppicev1.ListFinalizersReply{} },
		bus.VerbListConsumers: func(*coppicev1.StatusRequest) proto.Message {
			return &coppicev1.ListConsumersReply{Consumers: []*coppicev1.ConsumerState{
				{Queue: bus.QueueDirty, Exists: true, Pending: 5}, {Queue: bus.QueueOrphan, Pulling: 1}, {Queue: bus.QueueFinish, Unacknowledged: 3}, {Queue: bus.QueueDrain, Pulling: 1},
			}}
		},
	}
	service := httptest.NewServer(fakeService("scanner", "", ""))
	t.Cleanup(service.Close)
	url, js := fakeRealms(t, replies)
	args := []string{"--server", url, "--service", service.URL, "--actor", "ana"}
	needs(t, examined(t, args...), "work of default: work of the type blocked has waited for 3h", "disk of default: 10% of the disk", "archive of default: the archive cannot be read: connection refused",
		"brakes of default: the brake of pods is tripped", "warning of default: LogDamaged: the log is broken at sequence 3", "workers of default: no processor service takes the work of the queues "+bus.QueueDirty)

	status, warnings = &coppicev1.StatusReply{Paused: true}, nil
	storage = &coppicev1.Storage{DiskBytes: 100, DiskFreeBytes: 90, Archived: true, CutWaits: "no snapshot is verified"}
	parked = []*coppicev1.ParkedWork{{Id: 1}}
	waiting = []*coppicev1.Realm{{Name: "old", State: coppicev1.RealmState_REALM_STATE_DELETING, Waiting: "the archive cannot be reached"}}
	needs(t, examined(t, args...), "work of default: the realm was restored, and is paused", "archive of default: the log should have been cut: no snapshot is verified", "parked of default: work is parked",
		"brakes of default: ", "workers of default: ", "realm of old: the archive cannot be reached")

	realm.Writer, waiting = "", nil
	must.Succeed(t, js.DeleteStream(testkit.Context(t), bus.WarningStream(bus.DefaultRealm)))
	needs(t, examined(t, args...), "streams of coppice-default-warning: nats: API error", "writer of default: no graph service writes the realm")
}

// Each fault of services and NATS servers that their HTTP servers show is found.
func TestDoctorFindsFaultsOfServices(t *testing.T) {
	t.Parallel()
	url, _ := fakeRealms(t, map[string]func(*coppicev1.StatusRequest) proto.Message{
		bus.VerbListRealms: func(*coppicev1.StatusRequest) proto.Message {
			return &coppicev1.ListRealmsReply{Realms: []*coppicev1.Realm{{Name: "old", State: coppicev1.RealmState_REALM_STATE_DELETED}}}
		},
	})
	serve := func(h http.Handler) string {
		t.Helper()
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	monitor := func(reply string) string {
		return serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, reply) }))
	}
	args := func(more ...string) []string { return append([]string{"--server", url, "--actor", "ana"}, more...) }
	healthy := `coppice_graph_clock_ahead_seconds 0.001
coppice_graph_disk_bytes 100
coppice_graph_disk_free_bytes 50
coppice_graph_revision{realm="default",state="applied"} 20000
coppice_graph_archived_revision{realm="default",entry="segment"} 20000
coppice_graph_archived_revision{realm="default",entry="snapshot"} 15000
`
	first := serve(fakeService("graph", "", healthy))
	list := examined(t, args("--service", first, "--monitor", monitor(`{"server_name":"a","version":"2.15.2","jetstream":{"config":{"sync_always":true}}}`))...)
	needs(t, list)
	for _, check := range []string{"sync", "clock", "lag", "disk", "archive", "service"} {
		has(t, list, check, "ok")
	}
	ill := `coppice_graph_clock_ahead_seconds -7
coppice_graph_disk_bytes 100
coppice_graph_disk_free_bytes 5
coppice_graph_revision{realm="default",state="applied"} 9000
coppice_graph_log_damaged_messages{realm="default"} 2
`
	second := serve(fakeService("graph", "realm default: catching up with the log", ill))
	needs(t, examined(t, args("--service", first, "--service", second)...), "service of graph at "+second+": it is not ready: realm default: catching up", "clock of graph at "+second+": its clock differs by -7.0 s",
		"disk of graph at "+second+": 5% of the disk", "lag of default: graph at "+second+" is 11000 events behind", "log of default: 2 messages of the log")
	users := func(digest, stale string) string {
		return serve(fakeService("graph", "", healthy+"coppice_graph_users_file_info{digest=\""+digest+"\"} 1\ncoppice_graph_users_file_stale "+stale+"\n"))
	}
	same, other := users("aa11", "0"), users("bb22", "1")
	list = examined(t, args("--service", same, "--service", users("aa11", "0"))...)
	has(t, list, "users", "ok")
	needs(t, examined(t, args("--service", same, "--service", other)...), "users of users file: graph services have different users files: aa11, bb22", "users of graph at "+other+": its users file cannot be read")
	needs(t, examined(t, args("--service", same, "--service", first)...), "users of users file: graph at "+first+" has no users file")
	needs(t, examined(t, args("--service", monitor("hello"), "--service", "127.0.0.1:1")...), "the program that listens there is not a service of Coppice", "no program listens there")
	needs(t, examined(t, args("--service", first, "--monitor", monitor(`{"server_name":"a","version":"2.11.9","jetstream":{"config":{}}}`), "--monitor", monitor(`{"server_name":"b","version":"2.15.2"}`), "--monitor", monitor("hello"))...),
		"version of a: nats-server 2.11.9 is older than 2.12", "sync of a: the server acknowledges messages before they are on disk", "sync of b: the server has no JetStream", "invalid character")
}
