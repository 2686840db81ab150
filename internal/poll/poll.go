// Package poll waits for what nobody announces.
package poll

import (
	"context"
	"time"
)

// Every is how often Until asks.
const Every = 5 * time.Millisecond

// Until asks until the answer is yes or an error, which it returns, or ctx
// ends.
func Until(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(Every)
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
