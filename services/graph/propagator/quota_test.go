package propagator

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/uid"
)

// The counts are those of the calls that are in the stream, no limit is
// exceeded, and calls that wait are found again in the order of their objects,
// whatever happens in between.
func TestQuota(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limits := Limits{Calls: 5, Bytes: 60, IdleCalls: 8, IdleBytes: 100}
		q := newQuota(limits)
		type key struct {
			u    uid.UID
			name string
		}
		stream := map[key]int64{} // what is published
		waiting := map[key]bool{}
		live := map[string]bool{}
		object := rapid.Custom(func(t *rapid.T) uid.UID {
			return uid.UID(fmt.Sprintf("u%02d", rapid.IntRange(0, 30).Draw(t, "object")))
		})
		callee := rapid.SampledFrom([]string{"a", "b", "c"})
		publish := func(k key, bytes int64) {
			ok, counted := q.admit(k.u, k.name, true)
			_, there := stream[k]
			if counted != there {
				t.Fatalf("%v counts: %t, in the stream: %t", k, counted, there)
			}
			switch {
			case there:
			case ok:
				q.weigh(k.u, k.name, bytes)
				stream[k] = bytes
				delete(waiting, k)
			default:
				waiting[k] = true
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"publish": func(t *rapid.T) {
				publish(key{object.Draw(t, "u"), callee.Draw(t, "name")}, rapid.Int64Range(1, 20).Draw(t, "bytes"))
			},
			"finish": func(t *rapid.T) {
				u, name := object.Draw(t, "u"), callee.Draw(t, "name")
				var kept []string
				for _, other := range []string{"a", "b", "c"} {
					if other != name {
						kept = append(kept, other)
					}
				}
				q.keep(u, kept...)
				delete(stream, key{u, name})
				delete(waiting, key{u, name})
			},
			"observe": func(t *rapid.T) {
				live = map[string]bool{callee.Draw(t, "live"): true}
				q.observe(live)
			},
			"refill": func(t *rapid.T) {
				first, seeking := q.wanted()
				for i := range 31 {
					u := uid.UID(fmt.Sprintf("u%02d", i))
					for _, name := range []string{"a", "b", "c"} {
						k := key{u, name}
						if !waiting[k] || u < first {
							continue
						}
						if len(seeking) > 0 {
							publish(k, 5)
						}
					}
				}
				for _, c := range seeking {
					for k := range waiting {
						if k.name == c.name && !c.short {
							t.Fatalf("%v waits, and was passed over", k)
						}
					}
				}
				q.sought(seeking)
				for _, c := range seeking {
					if q.callees[c.name] == c && c.total == 0 && !c.short {
						t.Fatalf("%s has no calls, and is remembered", c.name)
					}
				}
			},
			"": func(t *rapid.T) {
				var all int
				var allBytes int64
				idle := 0
				for _, name := range []string{"a", "b", "c"} {
					calls, bytes := 0, int64(0)
					for k, size := range stream {
						if k.name == name {
							calls++
							bytes += size
						}
					}
					all, allBytes = all+calls, allBytes+bytes
					if calls > limits.Calls || bytes >= limits.Bytes+20 {
						t.Fatalf("%s has %d calls of %d bytes", name, calls, bytes)
					}
					if !live[name] {
						idle += calls
					}
				}
				if calls, bytes := q.total(); calls != all || bytes != allBytes {
					t.Fatalf("%d calls of %d bytes are counted, %d of %d are there", calls, bytes, all, allBytes)
				}
				if q.idle.calls != idle {
					t.Fatalf("%d calls without a consumer are counted, %d are there", q.idle.calls, idle)
				}
				for k := range waiting {
					if c := q.callees[k.name]; c == nil || !c.short || c.first > k.u {
						t.Fatalf("%v waits, and would not be read", k)
					}
				}
			},
		})
	})
}

// A callee without a consumer leaves room for those that have one; one that
// gets a consumer has its calls published.
func TestQuotaOfIdle(t *testing.T) {
	t.Parallel()
	q := newQuota(Limits{Calls: 100, Bytes: 1 << 20, IdleCalls: 10, IdleBytes: 1 << 20})
	publish := func(name string, n int) (published int) {
		for i := range n {
			u := uid.UID(fmt.Sprintf("%s-%03d", name, i))
			if ok, counted := q.admit(u, name, true); ok && !counted {
				q.weigh(u, name, 10)
				published++
			}
		}
		return published
	}
	if n := publish("idle", 50); n != 10 {
		t.Errorf("%d calls without a consumer were published, want 10", n)
	}
	if n := publish("new", 5); n != 0 {
		t.Errorf("%d calls beyond the share were published", n)
	}
	if !q.observe(map[string]bool{"new": true}) {
		t.Error("the one with a consumer has room")
	}
	if _, seeking := q.wanted(); len(seeking) != 1 || seeking[0].name != "new" {
		t.Errorf("%d callees have room, want the one", len(seeking))
	}
	if n := publish("new", 200); n != 100 {
		t.Errorf("%d calls were published, want 100", n)
	}
	if n := publish("idle", 50); n != 0 {
		t.Errorf("%d more calls without a consumer were published", n)
	}
}

// Calls that wait are found by a later refill if rounds use up the room while one
// reads rows.
func TestRefillGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	q := newQuota(Limits{Calls: 10, Bytes: 1 << 20, IdleCalls: 100, IdleBytes: 1 << 20})
	u := func(i int) uid.UID { return uid.UID(fmt.Sprintf("u%03d", i)) }
	for i := range 40 {
		q.admit(u(i), "x", true)
	}
	for i := range 5 {
		q.keep(u(i))
	}
	_, seeking := q.wanted()
	for i := 10; i < 14; i++ { // a page
		q.admit(u(i), "x", true)
	}
	for i := 100; i < 103; i++ { // a round
		q.admit(u(i), "x", true)
	}
	if q.seeks(seeking) {
		t.Fatal("there is room left")
	}
	q.resume(seeking, u(13))
	for i := range 10 {
		q.keep(u(i))
	}
	if first, _ := q.wanted(); first > u(14) {
		t.Errorf("the next refill begins at %q, and u014 waits", string(first))
	}
}

// A dependent of several absent owners is in a chunk once, at the newest revision of their rows.
func TestChunkHasDependentOnce(t *testing.T) {
	t.Parallel()
	var c chunk
	newest := uint64(0)
	for i := range uint64(1000) {
		revision := 100 + i*7%1000
		newest = max(newest, revision)
		c.addOnce(uid.UID(fmt.Sprint("owner-", i)), revision, "dependent")
	}
	c.addOnce("other", 1, "another")
	if c.n != 2 || len(c.groups) != 2 || c.groups[0].GetRevision() != newest {
		t.Errorf("%d dependents in %d groups, the first at revision %d, want 2 in 2 at %d", c.n, len(c.groups), c.groups[0].GetRevision(), newest)
	}
}
