package admission_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/coppice-gc/coppice/internal/admission"
)

// A user gets its share, and others the rest.
func TestShares(t *testing.T) {
	t.Parallel()
	l := admission.New(3, 2)
	for i, c := range []struct {
		user string
		want bool
	}{{"a", true}, {"a", true}, {"a", false}, {"b", true}, {"c", false}} {
		if got := l.Try(c.user) == nil; got != c.want {
			t.Errorf("%d: %s gets a place: %t, want %t", i, c.user, got, c.want)
		}
	}
	l.Release("a")
	if l.Try("c") != nil {
		t.Error("a place that was released is not given to another")
	}
	if total, its := l.Used("a"); total != 3 || its != 1 {
		t.Errorf("%d places are taken, by a %d", total, its)
	}
}

// Waiting calls get free places in the order in which they came. A call whose user has all
// its places does not block later calls, and a call whose context ends takes no place.
func TestWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := admission.New(2, 1)
		got := make(chan string, 10)
		wait := func(ctx context.Context, user, name string) {
			go func() {
				if err := l.Acquire(ctx, user); err != nil {
					name += ": " + err.Error()
				}
				got <- name
			}()
			synctest.Wait()
		}
		expect := func(want string) {
			t.Helper()
			synctest.Wait()
			select {
			case name := <-got:
				if name != want {
					t.Errorf("%q goes on, want %q", name, want)
				}
			default:
				t.Errorf("nothing goes on, want %q", want)
			}
		}
		if l.Try("a") != nil || l.Try("b") != nil {
			t.Fatal("no places")
		}
		given, giveUp := context.WithCancel(t.Context())
		wait(t.Context(), "a", "first of a")
		wait(given, "c", "c, which gives up")
		wait(t.Context(), "d", "d")
		wait(t.Context(), "e", "e")
		giveUp()
		expect("c, which gives up: context canceled")
		l.Release("b") // a has its share
		expect("d")
		l.Release("a")
		expect("first of a")
		l.Release("a")
		expect("e")
		l.Release("d")
		l.Release("e")
		if total, _ := l.Used(""); total != 0 {
			t.Errorf("%d places are taken in the end", total)
		}
		if err := l.Acquire(given, "f"); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
