package watch_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/watch"
)

// inProcess returns the benches of realms that one process serves.
func inProcess(t *testing.T, realms int, limits watch.Limits) (*watch.Process, []*hubRealm) {
	t.Helper()
	p := watch.NewProcess(limits)
	benches := make([]*hubRealm, realms)
	for i := range benches {
		b := startWith(t, limits)
		b.hub = p.NewHub(fmt.Sprint("realm-", i), b.State.Checkpoint().GetRevision(), time.Now, limits)
		benches[i] = b
	}
	return p, benches
}

// Four realms keep no more than twice what one may keep, in bytes and in changes. The realms that
// keep most lose their oldest changes; one that keeps less than an even share loses none.
func TestProcessBoundsWhatIsKept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		limits      watch.Limits
		size, count int // of the changes of a busy realm
	}{
		{"bytes", watch.Limits{Bytes: 1 << 20, Changes: 1 << 16}, 10 << 10, 200},
		{"changes", watch.Limits{Bytes: 64 << 20, Changes: 100}, 10, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, realms := inProcess(t, 4, c.limits)
			check := func(what string) {
				t.Helper()
				sum := watch.Usage{}
				for _, b := range realms {
					used := b.hub.Usage()
					sum.Bytes += used.Bytes
					sum.Changes += used.Changes
				}
				all := p.Usage()
				if all.Bytes != sum.Bytes || all.Changes != sum.Changes {
					t.Errorf("%s: the process counts %+v, its realms keep %+v", what, all, sum)
				}
				if all.Bytes > 2*c.limits.Bytes || all.Changes > 2*c.limits.Changes {
					t.Fatalf("%s: all realms keep %+v, want at most twice %+v", what, all, c.limits)
				}
			}
			for _, b := range realms {
				b.watch(nil).expect(" to 100")
			}
			quiet := realms[0]
			quiet.commit(updates("pods", 101, 20, c.size))
			for _, b := range realms[1:] {
				for i := range c.count {
					b.commit(updates("pods", 101+uint64(i), 1, c.size))
					check("while realms are busy")
				}
			}
			if kept := quiet.hub.Usage(); kept.Changes != 20 {
				t.Errorf("the quiet realm keeps %d changes, want all 20", kept.Changes)
			}
			least, most := c.count, 0
			for _, b := range realms[1:] {
				kept := b.hub.Usage().Changes
				least, most = min(least, kept), max(most, kept)
			}
			if least == 0 || most > least+1 {
				t.Errorf("busy realms keep between %d and %d changes, want an even share", least, most)
			}
			// A watch goes on within what is kept, and is expired before that.
			newest := uint64(100 + c.count)
			resumed := realms[3].watch(func(t *watch.Target) { t.From = newest - 1 })
			resumed.last = newest - 1
			resumed.expect(fmt.Sprintf("MODIFIED large@%d to %d", newest, newest))
			realms[3].watch(func(t *watch.Target) { t.From = 101 }).expired()

			before := p.Usage()
			gone := realms[3].hub.Usage()
			realms[3].hub.Close()
			check("after a realm has stopped")
			if after := p.Usage(); after.Changes != before.Changes-gone.Changes || after.Bytes != before.Bytes-gone.Bytes || realms[3].hub.Usage().Changes != 0 {
				t.Errorf("a realm that kept %+v has stopped: %+v before, %+v after", gone, before, after)
			}
			realms[3].commit(updates("pods", newest+1, 1, c.size))
			check("after a commit to a hub that is closed")
		})
	}
}

// Four realms have no more watches than twice what one may have. A realm that has none
// gets one although others ask for more, and the refusal names the process.
func TestProcessBoundsWatches(t *testing.T) {
	t.Parallel()
	p, realms := inProcess(t, 4, watch.Limits{Watches: 8, PerActor: 8})
	var leave [4][]func()
	for i, want := range []int{8, 4, 2, 1} {
		for {
			l, err := realms[i].hub.Admit("reader")
			if err != nil {
				says := "this process has "
				if i == 0 {
					says = `actor "reader" has 8 watches` // its own limit is the lower one
				}
				if err.Reason != api.ErrTooManyRequests || err.RetryAfter == 0 || !strings.Contains(err.Message, says) {
					t.Errorf("realm %d: %v, want a refusal that says %q", i, err, says)
				}
				break
			}
			leave[i] = append(leave[i], l)
		}
		if len(leave[i]) != want {
			t.Errorf("realm %d gets %d watches, want %d", i, len(leave[i]), want)
		}
	}
	if used := p.Usage(); used.Watches != 15 {
		t.Errorf("the process counts %d watches, want 15", used.Watches)
	}
	for _, l := range leave[0] { // they end after five minutes at the latest
		l()
	}
	l, err := realms[3].hub.Admit("reader")
	must.Succeed(t, err)
	leave[3] = append(leave[3], l)
	for _, realm := range leave[1:] {
		for _, l := range realm {
			l()
		}
	}
	if used := p.Usage(); used.Watches != 0 {
		t.Errorf("the process counts %d watches in the end", used.Watches)
	}
}

// Watches of one realm that all wait for a slow client leave places to send for other realms.
func TestSlowRealmLeavesPlaces(t *testing.T) {
	t.Parallel()
	_, realms := inProcess(t, 2, watch.Limits{Sending: 2, States: 2, StatesPerActor: 2})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	slow, other := realms[0], realms[1]
	blocked := make(chan struct{}, 10)
	for range 4 {
		slow.watch(func(t *watch.Target) {
			t.Send = func(*coppicev1.WatchBatch) error {
				blocked <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			}
		})
	}
	for range 2 {
		testkit.Receive(t, slow.ctx, "a watch of the slow realm to send its state", blocked)
	}
	w := other.watch(nil)
	w.expect(" to 100")
	other.commit(updates("pods", 101, 1, 10))
	w.expect("MODIFIED large@101 to 101")
}
