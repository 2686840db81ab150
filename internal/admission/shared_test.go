package admission_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/coppice-gc/coppice/internal/admission"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// fill takes places for a realm until it gets none, and returns their number.
func fill(l *admission.Limiter, realm string) (n int) {
	for l.Try(realm) == nil {
		n++
	}
	return n
}

// One realm gets half of the shared places, and each further one half of the rest. A realm that
// has none gets one while any is free.
func TestRealmsShare(t *testing.T) {
	t.Parallel()
	l := admission.NewShared(32)
	for i, want := range []int{16, 8, 4, 2, 1, 1, 0} {
		if got := fill(l, fmt.Sprint(i)); got != want {
			t.Errorf("realm %d gets %d places, want %d", i, got, want)
		}
	}
	if total, _ := l.Used(""); total != 32 {
		t.Errorf("%d places are taken, want 32", total)
	}
	l.Release("0")
	if l.Try("0") == nil {
		t.Error("the realm that has most gets the only place that is free")
	}
	if l.Try("6") != nil {
		t.Error("a realm that has no place does not get the one that is free")
	}
}

// Realms that take and release places come to about the same number of places each.
func TestSharesBecomeEven(t *testing.T) {
	t.Parallel()
	l := admission.NewShared(50)
	realms := []string{"a", "b", "c", "d"}
	for _, r := range realms {
		fill(l, r)
	}
	for range 50 {
		for _, r := range realms {
			if _, its := l.Used(r); its > 0 {
				l.Release(r)
			}
		}
		for _, r := range realms {
			fill(l, r)
		}
	}
	for _, r := range realms {
		if _, its := l.Used(r); its < 8 || its > 13 {
			t.Errorf("realm %s has %d of 50 places, want about a fifth", r, its)
		}
	}
}

// A place of a realm takes one of the process, and both are released, also if there is only the
// former.
func TestWithin(t *testing.T) {
	t.Parallel()
	shared := admission.NewShared(4)
	a, b := admission.New(3, 1).Within(shared, "a"), admission.New(3, 3).Within(shared, "b")
	for i, c := range []struct {
		l    *admission.Limiter
		user string
		want error
	}{
		{a, "x", nil},
		{a, "x", admission.ErrFull},
		{a, "y", nil},
		{a, "z", admission.ErrShared},
		{b, "x", nil},
		{b, "x", admission.ErrShared},
	} {
		if err := c.l.Try(c.user); !errors.Is(err, c.want) {
			t.Errorf("%d: %v, want %v", i, err, c.want)
		}
	}
	if n, its := a.Used("z"); n != 2 || its != 0 {
		t.Errorf("realm a has %d places of its own, %d for the user that was refused", n, its)
	}
	a.Release("x")
	a.Release("y")
	b.Release("x")
	if n, _ := shared.Used(""); n != 0 {
		t.Errorf("%d shared places are taken in the end", n)
	}
}

// A call waits for a place of the process. Its error names what it has waited for, and it keeps no
// place.
func TestWaitingForTheProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := admission.NewShared(2)
		a, b := admission.New(2, 2).Within(shared, "a"), admission.New(2, 2).Within(shared, "b")
		must.Succeed(t, errors.Join(a.Try("x"), b.Try("x")))
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error, 1)
		acquire := func(ctx context.Context) {
			go func() { got <- b.Acquire(ctx, "x") }()
			synctest.Wait()
		}
		acquire(ctx)
		cancel()
		if err := <-got; !errors.Is(err, admission.ErrShared) || !errors.Is(err, context.Canceled) {
			t.Errorf("a call that was cancelled: %v", err)
		}
		if n, _ := b.Used(""); n != 1 {
			t.Errorf("realm b has %d places after that, want 1", n)
		}
		acquire(t.Context())
		a.Release("x") // b has as many places as are free now
		synctest.Wait()
		if len(got) != 0 {
			t.Error("a realm takes the last place while it has another")
		}
		b.Release("x")
		if err := <-got; err != nil {
			t.Error(err)
		}
	})
}
