package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/queue"
)

const (
	a queue.Flags = 1 << iota
	b
)

// take returns what is ready as text, and keeps it in processing.
func take(q *queue.Queue[string], limit int) (string, queue.Batch[string]) {
	batch, ok := q.Take(limit)
	var parts []string
	if batch.All {
		parts = append(parts, fmt.Sprintf("all:%d", batch.AllFlags))
	}
	for _, i := range batch.Items {
		parts = append(parts, fmt.Sprintf("%s:%d", i.Key, i.Flags))
	}
	if ok != (len(parts) > 0) {
		parts = append(parts, fmt.Sprintf("and ok is %t", ok))
	}
	return strings.Join(parts, " "), batch
}

func expect(t *testing.T, q *queue.Queue[string], limit int, want string) queue.Batch[string] {
	t.Helper()
	got, batch := take(q, limit)
	if got != want {
		t.Fatalf("handed out %q, want %q", got, want)
	}
	return batch
}

func TestOrderAndFlags(t *testing.T) {
	t.Parallel()
	q := queue.New[string](queue.Config{})
	q.Add("y", a)
	q.Add("x", 0)
	q.Add("y", b)
	q.Add("z", b)
	q.Done(expect(t, q, 2, "y:3 x:0"))
	q.Done(expect(t, q, 0, "z:2"))
	expect(t, q, 0, "")
}

// A key that is added while it is being processed is handed out again after Done,
// behind those that are ready by then.
func TestAddedWhileProcessed(t *testing.T) {
	t.Parallel()
	q := queue.New[string](queue.Config{})
	q.Add("x", a)
	q.AddAll(a)
	batch := expect(t, q, 0, "all:1 x:1")
	q.Add("x", b)
	q.AddAll(b)
	q.Add("y", 0)
	if !q.Pending("x") || !q.Pending("y") || q.Pending("z") {
		t.Error("x and y are pending, and z is not")
	}
	second := expect(t, q, 0, "y:0")
	q.Done(batch)
	q.Done(second)
	q.Done(expect(t, q, 0, "all:2 x:2"))
	if q.Has("x") {
		t.Error("x is still in the queue")
	}
}

// The earliest time counts; an add for now neither cancels it nor gets its flags.
func TestTimes(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	q := queue.New[string](queue.Config{Now: func() time.Time { return now }, Step: time.Second})
	q.AddAt("x", a, now.Add(10*time.Second))
	q.AddAt("x", b, now.Add(4*time.Second+1))
	q.AddAt("y", a, now.Add(5*time.Second))
	q.AddAllAt(a, now.Add(6*time.Second))
	q.Add("x", 0)
	q.Done(expect(t, q, 0, "x:0"))
	now = now.Add(5*time.Second - 1)
	expect(t, q, 0, "")
	if q.Pending("x") || !q.Has("x") {
		t.Error("x has a time, and is not pending before")
	}
	now = now.Add(1)
	got := q.Take
	batch, _ := got(0)
	if len(batch.Items) != 2 { // in any order: they are due at the same time
		t.Fatalf("handed out %v, want x and y", batch.Items)
	}
	now = now.Add(time.Second)
	q.Done(expect(t, q, 0, "all:1"))
	q.Done(batch)
	now = now.Add(time.Hour)
	expect(t, q, 0, "")
}

// A key that rests is not handed out before its time, whenever it was added.
func TestRest(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	q := queue.New[string](queue.Config{Now: func() time.Time { return now }})
	q.Add("x", a)
	q.Add("y", a)
	batch := expect(t, q, 0, "x:1 y:1")
	q.Add("x", b)
	q.Rest("x", now.Add(time.Minute))
	q.Rest("y", now.Add(time.Minute))
	q.AddAt("y", b, now.Add(time.Hour))
	q.Done(batch)
	q.Add("x", 0)
	q.AddAt("x", 0, now.Add(time.Second))
	now = now.Add(time.Minute - 1)
	expect(t, q, 0, "")
	q.Add("y", a)
	now = now.Add(1)
	batch, _ = q.Take(0)
	slices.SortFunc(batch.Items, func(i, j queue.Item[string]) int { return strings.Compare(i.Key, j.Key) })
	if len(batch.Items) != 2 || batch.Items[0].Flags != b || batch.Items[1].Flags != a|b {
		t.Fatalf("handed out %v, want x and y with what was added", batch.Items)
	}
	q.Done(batch)
	q.Add("x", a)
	q.Rest("x", now.Add(time.Minute)) // it is ready, and stays so
	q.Done(expect(t, q, 0, "x:1"))
	q.Add("x", a)
	expect(t, q, 0, "")
	q.Forget("x", 0)
	q.Add("x", a)
	q.Done(expect(t, q, 0, "x:1"))
	now = now.Add(time.Hour)
	expect(t, q, 0, "")
	if q.Has("x") || q.Has("y") {
		t.Error("keys are left")
	}
}

func TestForget(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	q := queue.New[string](queue.Config{Now: func() time.Time { return now }})
	q.Add("x", a|b)
	q.AddAt("x", a, now.Add(time.Second))
	q.Add("y", a)
	q.Forget("x", b)
	q.Forget("y", b)
	q.Forget("z", b)
	batch := expect(t, q, 0, "x:2")
	q.Add("x", a)
	q.Forget("x", 0)
	q.Done(batch)
	now = now.Add(time.Minute)
	expect(t, q, 0, "")
	for range 3 { // a key that was forgotten and added again is handed out once
		q.Add("x", a)
		q.Forget("x", 0)
	}
	q.Add("x", b)
	q.Done(expect(t, q, 0, "x:2"))
	expect(t, q, 0, "")
}

// Keys that were forgotten take no room in the order of the others.
func TestForgetMany(t *testing.T) {
	t.Parallel()
	q := queue.New[string](queue.Config{})
	for i := range 20_000 {
		q.Add(fmt.Sprint(i), a)
	}
	for i := range 20_000 {
		if i%1000 != 0 {
			q.Forget(fmt.Sprint(i), 0)
		}
	}
	q.Add("last", a)
	batch, _ := q.Take(0)
	if n := len(batch.Items); n != 21 || batch.Items[1].Key != "1000" || batch.Items[20].Key != "last" {
		t.Errorf("handed out %d keys, want each thousandth, in order, and the last", n)
	}
}

// A queue that is full takes no new keys, and everything instead.
func TestLimit(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	q := queue.New[string](queue.Config{Limit: 2, Now: func() time.Time { return now }})
	for _, c := range []struct {
		key       string
		now, then bool
	}{{"x", true, true}, {"y", true, true}, {"z", false, false}, {"x", true, true}} {
		if q.Add(c.key, a) != c.now || q.AddAt(c.key, b, now.Add(time.Minute)) != c.then {
			t.Errorf("adding %s: want %t for now, %t for later", c.key, c.now, c.then)
		}
	}
	q.AddAll(a)
	q.Done(expect(t, q, 0, "all:1 x:1 y:1"))
	if !q.Add("z", a) {
		t.Error("z does not fit, and nothing is ready")
	}
}

// pass has time pass on the clock of a synctest bubble.
func pass(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // no real time passes

// Callers of Get are woken by adds and by times, and each key goes to one of them.
func TestGet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := queue.New[string](queue.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		var mu sync.Mutex
		var got []string
		var workers sync.WaitGroup
		for range 3 {
			workers.Go(func() {
				for {
					batch, err := q.Get(ctx, 1)
					if err != nil {
						if !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
						return
					}
					mu.Lock()
					got = append(got, fmt.Sprintf("%s after %s", batch.Items[0].Key, time.Since(start)))
					mu.Unlock()
					pass(time.Minute) // it is being processed
					q.Done(batch)
				}
			})
		}
		synctest.Wait()
		q.AddAt("later", 0, start.Add(time.Hour))
		q.AddAt("soon", 0, start.Add(time.Second))
		q.Add("x", 0)
		pass(time.Second)
		synctest.Wait()
		q.AddAt("next", 0, start.Add(2*time.Second))
		q.Add("x", 0)
		pass(2 * time.Hour)
		synctest.Wait()
		cancel()
		workers.Wait()
		want := []string{"x after 0s", "soon after 1s", "next after 2s", "x after 1m0s", "later after 1h0m0s"}
		if !slices.Equal(got, want) {
			t.Errorf("handed out %q, want %q", got, want)
		}
	})
}

// model is what a queue does, in the simplest way.
type model struct {
	now    map[string]queue.Flags
	later  map[string]queue.Flags
	at     map[string]int
	rest   map[string]int
	active map[string]bool
}

func (m *model) elapse(now int) {
	for k, at := range m.at {
		if at <= now {
			m.now[k] |= m.later[k]
			delete(m.at, k)
			delete(m.later, k)
		}
	}
}

func (m *model) add(k string, f queue.Flags, at, now int) {
	at = max(at, m.rest[k])
	if at <= now {
		m.now[k] |= f
		return
	}
	m.later[k] |= f
	if was, ok := m.at[k]; !ok || at < was {
		m.at[k] = at
	}
}

// In whatever order a queue is used, it hands out what its model does.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		start, second := time.Unix(1000, 0), 0
		clock := func() time.Time { return start.Add(time.Duration(second) * time.Second) }
		q := queue.New[string](queue.Config{Now: clock})
		m := &model{map[string]queue.Flags{}, map[string]queue.Flags{}, map[string]int{}, map[string]int{}, map[string]bool{}}
		var batches []queue.Batch[string]
		key := rapid.SampledFrom([]string{"u", "v", "w", "x", "y"})
		flags := rapid.Map(rapid.Uint8Range(0, 3), func(f uint8) queue.Flags { return queue.Flags(f) })
		ahead := rapid.IntRange(1, 5)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				k, f := key.Draw(t, "key"), flags.Draw(t, "flags")
				q.Add(k, f)
				m.add(k, f, second, second)
			},
			"add at": func(t *rapid.T) {
				k, f, in := key.Draw(t, "key"), flags.Draw(t, "flags"), ahead.Draw(t, "ahead")
				q.AddAt(k, f, clock().Add(time.Duration(in)*time.Second))
				m.add(k, f, second+in, second)
			},
			"take": func(t *rapid.T) {
				limit := rapid.IntRange(0, 3).Draw(t, "limit")
				m.elapse(second)
				ready := 0
				for k := range m.now {
					if !m.active[k] {
						ready++
					}
				}
				batch, ok := q.Take(limit)
				want := ready
				if limit > 0 {
					want = min(limit, ready)
				}
				if len(batch.Items) != want || ok != (want > 0) {
					t.Fatalf("handed out %d keys, want %d", len(batch.Items), want)
				}
				for _, i := range batch.Items {
					if f, ok := m.now[i.Key]; !ok || f != i.Flags || m.active[i.Key] {
						t.Fatalf("handed out %s with %d, want %d (is ready: %t, is processed: %t)", i.Key, i.Flags, f, ok, m.active[i.Key])
					}
					delete(m.now, i.Key)
					m.active[i.Key] = true
				}
				batches = append(batches, batch)
			},
			"rest and done": func(t *rapid.T) {
				if len(batches) == 0 {
					return
				}
				batch := batches[0]
				batches = batches[1:]
				for _, i := range batch.Items {
					m.active[i.Key] = false
					if rapid.Bool().Draw(t, "rest") {
						in := ahead.Draw(t, "ahead")
						q.Rest(i.Key, clock().Add(time.Duration(in)*time.Second))
						m.rest[i.Key] = second + in
						if at, ok := m.at[i.Key]; ok {
							m.at[i.Key] = max(at, second+in)
						}
						if f, ok := m.now[i.Key]; ok {
							delete(m.now, i.Key)
							m.add(i.Key, f, 0, second)
						}
					}
				}
				q.Done(batch)
			},
			"forget": func(t *rapid.T) {
				k, keep := key.Draw(t, "key"), flags.Draw(t, "keep")
				q.Forget(k, keep)
				delete(m.at, k)
				delete(m.later, k)
				delete(m.rest, k)
				if m.now[k] &= keep; m.now[k] == 0 {
					delete(m.now, k)
				}
			},
			"wait": func(*rapid.T) { second++ },
			"": func(t *rapid.T) {
				for _, k := range []string{"u", "v", "w", "x", "y"} {
					_, now := m.now[k]
					_, timed := m.at[k]
					if q.Has(k) != (now || timed || m.active[k]) {
						t.Fatalf("%s is in the queue: %t", k, q.Has(k))
					}
				}
			},
		})
	})
}

// BenchmarkQueue is the path of a row of pending work: added with others of a
// commit, taken, done.
func BenchmarkQueue(bench *testing.B) {
	keys := make([]string, 4096)
	for i := range keys {
		keys[i] = fmt.Sprintf("%016d", i)
	}
	q := queue.New[string](queue.Config{})
	bench.ReportAllocs()
	for bench.Loop() {
		q.Update(func(tx queue.Tx[string]) {
			for _, k := range keys {
				tx.Add(k, a)
			}
		})
		batch, _ := q.Take(0)
		q.Done(batch)
	}
	bench.ReportMetric(float64(bench.Elapsed().Nanoseconds())/float64(bench.N*len(keys)), "ns/key")
}
