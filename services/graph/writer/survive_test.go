package writer_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// No request makes a commit that NATS refuses as too large, whatever its size and the
// other requests of the commit: that would end the writer. Each request is answered, and
// answered again when it is repeated.
func TestSurvives(t *testing.T) {
	t.Parallel()
	first := nightly.Seed(t)
	for seed := first; seed < first+3; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			b := start(t, func(c *writer.Config) { c.MaxPayload = 64 << 10 })
			r := rand.New(rand.NewPCG(seed, 0))
			for round := range 6 {
				release := b.log.holdUp()
				b.submit(create(fmt.Sprint("hold-", round)))
				testkit.Receive(t, b.ctx, "the append", b.log.arrived)
				var answers []<-chan answer
				for i := range 1 + r.IntN(12) {
					answers = append(answers, b.submit(withID(uint64(20*round+i+1), randomRequest(r))))
				}
				release()
				for _, a := range answers {
					testkit.Receive(t, b.ctx, "an answer", a)
				}
				for len(b.log.arrived) > 0 {
					<-b.log.arrived
				}
			}
			b.log.check(t)
		})
	}
}

func randomRequest(r *rand.Rand) *writer.Request {
	var objects []*coppicev1.Object
	size := []int{0, 10, 1000, 20000}[r.IntN(4)]
	for range 1 + r.IntN(1+r.IntN(200)) {
		o := configMap(fmt.Sprint(strings.Repeat("n", 1+r.IntN(60)), "-", r.IntN(1000)))
		if r.IntN(5) == 0 {
			o.Spec = []byte(`"` + strings.Repeat("x", r.IntN(size+1)) + `"`)
		}
		for range r.IntN(3) {
			o.Metadata.Finalizers = append(o.Metadata.Finalizers, "example.com/"+strings.Repeat("f", 1+r.IntN(50)))
			o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, &coppicev1.OwnerReference{
				ApiVersion: "apps/v1", Kind: "Deployment", Name: strings.Repeat("o", 1+r.IntN(60)), Uid: fmt.Sprintf("%08d-0000-7000-8000-000000000000", r.IntN(100)),
			})
		}
		objects = append(objects, o)
	}
	work := creation(objects...)
	work.Atomic, work.DryRun = r.IntN(6) == 0, r.IntN(6) == 0
	return &writer.Request{Work: work, Size: 1}
}
