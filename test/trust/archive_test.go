package trust_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/stores"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/archiver"
)

// A graph service archives into an object store. No client and no other service may read,
// write or delete it, with accounts and without.
func TestArchiveInObjectStore(t *testing.T) {
	t.Parallel()
	for name, auth := range map[string]bool{"with accounts": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startWith(t, allinone.Config{Auth: auth, OneAccount: !auth, Graph: func(c *graph.Config) {
				o := stores.Opener{JetStream: func(context.Context) (jetstream.JetStream, error) { return jetstream.New(c.Conn) }}
				c.Archive = o.Lazy(archive.Location{Scheme: "nats", Bucket: archiveBucket})
				c.ArchiveLimits = archiver.Limits{SegmentBytes: 1, SnapshotBytes: 1, Pause: time.Millisecond}
			}})
			js := r.JetStream(bus.RoleGraph)
			store, err := stores.Opener{JetStream: func(context.Context) (jetstream.JetStream, error) { return js, nil }}.Create(r.Ctx, archive.Location{Scheme: "nats", Bucket: archiveBucket})
			must.Succeed(t, err)
			kinds := map[archive.Kind]string{}
			r.WaitFor("a segment and a verified snapshot", func() bool {
				clear(kinds) // another entry may replace one
				for e, err := range store.List(r.Ctx, "") {
					must.Succeed(t, err)
					n, _ := archive.ParseName(e.Name)
					kinds[n.Kind] = e.Name
				}
				return len(kinds) == 3
			})
			roles := bus.Actors(bus.Roles(bus.AnyRealm))
			if !auth {
				roles = append(roles, bus.LocalRole(bus.AnyRealm), bus.AnswersRole(bus.AnyRealm))
			}
			for _, role := range roles {
				r.deniedArchive(role.Name)
			}
			for _, name := range kinds {
				if in, err := store.Open(r.Ctx, name, 0, 1); err != nil {
					t.Errorf("entry %s: %v", name, err)
				} else if err := in.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// deniedArchive checks that the NATS server refuses a role each subject by which an object store is
// read and changed.
func (r *realm) deniedArchive(role string) {
	r.TB.Helper()
	var denied atomic.Int64
	nc, err := r.connect(role, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) {
			denied.Add(1)
		}
	}))
	must.Succeed(r.TB, err)
	defer nc.Close()
	stream, tried := "OBJ_"+archiveBucket, int64(0)
	refuses := func(subject string) {
		r.TB.Helper()
		tried++
		r.WaitFor(role+" to be denied "+subject, func() bool { return denied.Load() == tried })
	}
	if _, err := nc.SubscribeSync("$O.>"); err != nil {
		r.TB.Fatal(err)
	}
	refuses("$O.>")
	for subject, body := range map[string]string{
		"$O." + archiveBucket + ".M.eA==": `{}`, "$O." + archiveBucket + ".C.x": "x",
		"$JS.API.DIRECT.GET." + stream: `{"seq":1}`, "$JS.API.DIRECT.GET." + stream + ".$O." + archiveBucket + ".M.eA==": "",
		"$JS.API.STREAM.MSG.GET." + stream: `{"seq":1}`, "$JS.API.STREAM.MSG.DELETE." + stream: `{"seq":1}`,
		"$JS.API.STREAM.PURGE." + stream: "", "$JS.API.STREAM.DELETE." + stream: "", "$JS.API.STREAM.UPDATE." + stream: `{"name":"` + stream + `"}`,
		"$JS.API.CONSUMER.CREATE." + stream + ".x.>": `{"stream_name":"` + stream + `","config":{"name":"x"}}`,
	} {
		r.publish(nc, subject, nc.NewInbox(), nil, []byte(body))
		refuses(subject)
	}
}
