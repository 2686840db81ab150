package client

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit/nightly"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

func eventOf(t EventType, name string, u uid.UID, revision uint64) WatchEvent {
	return WatchEvent{Type: t, Revision: revision, Object: &coppicev1.Object{
		ApiVersion: "v1", Kind: "Pod", Metadata: &coppicev1.ObjectMeta{Namespace: "shop", Name: name, Uid: u.String(), ResourceVersion: revision},
	}}
}

// Pages and changes overlap, and an earlier state of an object may come after a later
// one. What is delivered of any history, read by pages at later and later revisions and
// followed by the changes since the first, is that history: each object is added
// once, modified only to a later revision, and deleted under the uid that is there; in the end
// what was delivered is what is there.
func TestDeliveredIsWhatIsThere(t *testing.T) {
	t.Parallel()
	const names, length = 12, 200
	first := nightly.Seed(t)
	for seed := first; seed < first+200; seed++ {
		random := rand.New(rand.NewPCG(seed, 1))
		type row struct {
			uid      uid.UID
			revision uint64
		}
		state := map[string]row{}
		var log []WatchEvent
		happen := func() {
			revision := uint64(len(log)) + 1
			name := fmt.Sprintf("p-%02d", random.IntN(names))
			was, there := state[name]
			switch {
			case !there:
				was = row{uid.New(), revision}
				state[name] = was
				log = append(log, eventOf(Added, name, was.uid, revision))
			case random.IntN(2) == 0:
				delete(state, name)
				log = append(log, eventOf(Deleted, name, was.uid, revision))
			default:
				state[name] = row{was.uid, revision}
				log = append(log, eventOf(Modified, name, was.uid, revision))
			}
		}
		d := newDelivered()
		cache := map[string]row{}
		deliver := func(events ...WatchEvent) {
			for _, e := range events {
				m := e.Object.GetMetadata()
				was, had := cache[m.GetName()]
				u := uid.MustParse(m.GetUid())
				switch e.Type {
				case Added:
					if had {
						t.Fatalf("seed %d: %s is added twice", seed, m.GetName())
					}
				default:
					if !had || was.uid != u || e.Revision <= was.revision {
						t.Fatalf("seed %d: %v of %s at %d, and the cache has %v", seed, e.Type, m.GetName(), e.Revision, was)
					}
				}
				if cache[m.GetName()] = (row{u, e.Revision}); e.Type == Deleted {
					delete(cache, m.GetName())
				}
			}
		}
		for range 3 { // an interruption before each but the first
			for range random.IntN(length) {
				happen()
			}
			base := len(log)
			d.begin()
			last := uint64(0)
			for from := 0; from < names; {
				to := from + 1 + random.IntN(4)
				for i := from; i < to; i++ {
					name := fmt.Sprintf("p-%02d", i)
					if r, there := state[name]; there {
						deliver(d.apply(eventOf(Added, name, r.uid, r.revision))...)
					}
				}
				last = uint64(len(log))
				for range random.IntN(20) {
					happen()
				}
				from = to
			}
			for key, o := range d.unseen() {
				delete(d.objects, key)
				deliver(o.gone(key, max(last, uint64(base))))
			}
			for _, e := range log[base:] {
				deliver(d.apply(e)...)
			}
			if !maps.Equal(cache, state) {
				t.Fatalf("seed %d: the cache is\n%v, and there is\n%v", seed, cache, state)
			}
		}
	}
}

// What is remembered of an object takes about 200 bytes, as Watch says.
func TestDeliveredIsSmall(t *testing.T) {
	const n = 100_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	d := newDelivered()
	for i := range n {
		d.apply(eventOf(Added, fmt.Sprintf("replicaset-web-%08d", i), uid.New(), uint64(i)+1))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / n
	t.Logf("%d bytes for each of %d objects", each, n)
	if each > 260 {
		t.Errorf("each of %d objects takes %d bytes, want about 200", n, each)
	}
	if d.tooMany() || len(d.objects) != n {
		t.Errorf("%d objects are remembered", len(d.objects))
	}
}
