package streams_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// A page of parked work reads no more of it than the page has room for: all of it arrives on the connection on which
// the log is written.
func TestPagesOfParkedWork(t *testing.T) {
	t.Parallel()
	r := serveReaders(t, &madeLog{}, nil)
	must.Succeed(t, bus.EnsureStreams(r.ctx, r.js, bus.DefaultRealm, 1))
	const all, limit = 50, 20
	worker := testkit.JetStream(t, r.server, bus.RoleProcessor)
	for i := range uint64(all) {
		work := bus.WorkSubject(bus.DefaultRealm, bus.QueueDirty)
		data, err := proto.Marshal(&coppicev1.Parked{Subject: work, Error: "broken"})
		must.Succeed(t, err)
		if _, err := worker.Publish(r.ctx, bus.ParkedSubject(bus.DefaultRealm, work, i+1), data); err != nil {
			t.Fatal(err)
		}
	}
	c := client.New(r.client, client.WithActor(bus.RoleOperator))
	before := r.js.Conn().Stats().InMsgs
	found := 0
	for after, more := uint64(0), true; more; {
		page, err := c.Operations().ListParked(r.ctx, client.AfterID(after), client.Limit(limit))
		must.Succeed(t, err)
		found += len(page.GetParked())
		after, more = page.GetNext(), page.GetNext() != 0
	}
	if found != all {
		t.Errorf("the pages have %d pieces of work, want %d", found, all)
	}
	if arrived := r.js.Conn().Stats().InMsgs - before; arrived > all+10 { // and the ends of the reads
		t.Errorf("%d messages arrived for %d pieces of work", arrived, all)
	}
}
