package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
)

// A watch that the NATS user may not begin ends at once, with the reason; with a retry
// timeout, so does one that no graph service serves for that long. Without, it waits
// for one.
func TestWatchRefused(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	ctx := testkit.Context(t)
	for _, c := range []struct {
		user   string
		retry  time.Duration
		reason client.Reason
	}{
		{bus.RoleProcessor, 0, client.ErrForbidden},
		{bus.RoleProcessor, time.Hour, client.ErrForbidden},
		{bus.RoleReader, 500 * time.Millisecond, client.ErrServiceUnavailable},
	} {
		nc := testkit.Conn(t, server, c.user)
		watch := func() (err error) {
			cl := client.New(nc, client.WithActor(c.user), client.WithTimeout(testkit.Timeout), client.WithRetryTimeout(c.retry))
			n := 0
			for _, err = range cl.Resource(configMaps, "shop").Watch(ctx) {
				n++
			}
			if n != 1 {
				t.Errorf("as %s, with a retry timeout of %s: %d events", c.user, c.retry, n)
			}
			return err
		}
		err := watch()
		for ; !errors.Is(err, c.reason) && errors.Is(err, context.DeadlineExceeded) && c.retry < testkit.Timeout; err = watch() {
			c.retry *= 2 // the machine is too slow for an attempt in this time
		}
		if !errors.Is(err, c.reason) {
			t.Errorf("as %s, with a retry timeout of %s: %v, want %s", c.user, c.retry, err, c.reason)
		}
	}
}
