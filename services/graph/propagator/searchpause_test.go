package propagator

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A search that breaks a cycle is repeated at once. Then the pause is as long as the last search says,
// however long cycles came before it.
func TestSearchesPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		begun := time.Now()
		var began []time.Duration
		err := searchRepeatedly(ctx, func(context.Context) (bool, error) {
			began = append(began, time.Since(begun))
			switch len(began) {
			case 1, 2, 3:
				time.Sleep(3 * time.Second) //nolint:forbidigo // passes at once: the clock of synctest
				return true, nil
			case 5:
				time.Sleep(100 * time.Millisecond) //nolint:forbidigo // passes at once: the clock of synctest
			case 6:
				return false, context.Canceled
			}
			return false, nil
		})
		want := []time.Duration{time.Second, 4 * time.Second, 7 * time.Second, 10 * time.Second, 11 * time.Second, 13*time.Second + 100*time.Millisecond}
		if !errors.Is(err, context.Canceled) || !slices.Equal(began, want) {
			t.Errorf("searches began at %v, want %v; %v", began, want, err)
		}
	})
}
