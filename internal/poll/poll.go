// Package poll waits for conditions that no event announces.
package poll

import (
	"context"
	"time"
)

// Every is the interval at which Until calls done.
const Every = 5 * time.Millisecond

// Until calls done until it returns true or an error, or ctx ends. It returns the error of
// done or of ctx.
func Until(ctx context.Context, done func() (bool, error)) error {
	return UntilAt(ctx, Every, done)
}

// UntilAt is Until with another interval.
func UntilAt(ctx context.Context, interval time.Duration, done func() (bool, error)) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Sleep waits for a time. It returns the error of ctx if that ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
