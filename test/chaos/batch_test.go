package chaos_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// S12: a process is killed in the middle of a batch that takes several commits. The
// next one goes on with the batch: each object is created once, and the answer says so
// of each.
//
//nolint:tparallel // one process after the other works on the same directory
func TestCrashInABatch(t *testing.T) {
	t.Parallel()
	server := testkit.StartNATS(t, natsd.Config{Dir: t.TempDir(), MaxPayload: 1 << 20})
	nc := testkit.Conn(t, server, bus.RoleOperator)
	log := newAuditor(t)
	reader := testkit.Conn(t, server, bus.RoleGraph)
	ledger := &ledger{nc: nc, actor: bus.RoleOperator}
	child := childConfig{Name: "services", Dir: t.TempDir(), URL: server.URL(), Passwords: passwords(server), LeaseTTL: time.Second}
	for i, o := range []order{
		{Step: writer.FailOutcome, Pass: 1}, {Step: writer.FailAppended, Pass: 1}, {Step: writer.FailApplied, Pass: 1}, {Step: writer.FailDecided, Pass: 2}, {Step: writer.FailAppended, Pass: 2},
	} {
		ok := t.Run(fmt.Sprintf("%s %d", o.Step, o.Pass), func(t *testing.T) {
			log.t = t
			ctx := testkit.Context(t)
			p := start(t, child)
			if _, err := ledger.do(ctx, creation(configMaps, "batches", &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: fmt.Sprint("before-", i)}})); err != nil {
				t.Fatal(err)
			}
			log.mustRead(ctx, reader)
			commits := log.sequence
			p.arm(o)
			var objects []*coppicev1.Object
			for k := range 2000 {
				objects = append(objects, &coppicev1.Object{
					Metadata: &coppicev1.ObjectMeta{Name: fmt.Sprintf("batch-%d-%04d", i, k)}, Spec: []byte(`"` + strings.Repeat("x", 400) + `"`),
				})
			}
			type answer struct {
				reply *coppicev1.ObjectsReply
				err   error
			}
			answers := make(chan answer, 1)
			go func(ctx context.Context) {
				reply, err := ledger.do(ctx, creation(configMaps, "batches", objects...))
				answers <- answer{reply, err}
			}(ctx)
			p.killed(ctx, o.Step)
			p = start(t, child)
			a := testkit.Receive(t, ctx, "the answer to the batch", answers)
			if a.err != nil {
				t.Fatal(a.err)
			}
			if len(a.reply.GetResults()) != len(objects) {
				t.Fatalf("%d results", len(a.reply.GetResults()))
			}
			for k, r := range a.reply.GetResults() {
				if r.GetCode() != 201 {
					t.Fatalf("object %d: %v", k, r)
				}
			}
			p.stop(ctx)
			log.mustRead(ctx, reader)
			if n := log.sequence - commits; n < 3 { // with the epoch's
				t.Fatalf("there were %d commits; the test wants several of the batch", n)
			}
			log.check(t, ledger.take())
		})
		if !ok {
			break
		}
	}
}
