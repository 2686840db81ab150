package writer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// Replies that are kept with their commands have room in the commit, also those
// with objects of which most is not their body: a commit that is larger than a
// message ends the writer.
func TestKeptRepliesFit(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *writer.Config) { c.MaxPayload = 64 << 10 })
	const objects, owners = 24, 40
	for i := range objects {
		o := configMap(fmt.Sprint("x-", i))
		o.Metadata.Finalizers = []string{"example.com/kept"}
		for range owners {
			o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, &coppicev1.OwnerReference{
				ApiVersion: "v1", Kind: "ConfigMap", Name: strings.Repeat("o", 200), Uid: uid.New().String(),
			})
		}
		b.do(&writer.Request{Work: creation(o)}).objects(t)
	}
	first, release := b.underWay()
	var answers []<-chan answer
	for i := range objects {
		answers = append(answers, b.submit(withID(uint64(i+1), remove(fmt.Sprint("x-", i)))))
	}
	release()
	testkit.Receive(t, b.ctx, "the first answer", first).objects(t)
	for i, a := range answers {
		got := testkit.Receive(t, b.ctx, "the end of a deletion", a)
		if r := got.objects(t)[0]; r.GetCode() != 202 || len(r.GetObject().GetMetadata().GetOwnerReferences()) != owners {
			t.Errorf("x-%d: %v", i, r)
		}
		same(t, got, b.do(withID(uint64(i+1), remove(fmt.Sprint("x-", i)))))
	}
	b.log.check(t)
}

// A batch whose objects do not fit into one reply is carried out and can be repeated: the
// objects without room are returned in brief.
func TestWholeWithoutRoom(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *writer.Config) { c.MaxPayload = 64 << 10 })
	request := func() *writer.Request {
		var objects []*coppicev1.Object
		for i := range 4 {
			o := configMap(fmt.Sprint("x-", i))
			o.Spec = fmt.Appendf(nil, `"%s"`, strings.Repeat("x", 19<<10))
			objects = append(objects, o)
		}
		return withID(1, whole(&writer.Request{Work: creation(objects...)}))
	}
	first := b.do(request())
	results := first.objects(t)
	if len(results) != 4 || len(b.there()) != 4 {
		t.Fatalf("%d results, and %d objects", len(results), len(b.there()))
	}
	for i, r := range results {
		m := r.GetObject().GetMetadata()
		if r.GetCode() != 201 || m.GetUid() == "" || m.GetResourceVersion() == 0 || (i == 0) != (m.GetName() == "x-0") {
			t.Errorf("the result for object %d is %v", i, r)
		}
	}
	same(t, first, b.do(request()))
	b.log.check(t)
}
