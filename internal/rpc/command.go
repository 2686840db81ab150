package rpc

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
)

// undelivered is the error of a request that no service has received.
type undelivered struct{ err *api.Error }

func (u undelivered) Error() string { return u.err.Error() }
func (u undelivered) Unwrap() error { return u.err }

// Commands draws the ids of commands, and corrects the time in them when a server
// refuses it. The zero Commands is ready for use. It is safe for concurrent use.
type Commands struct {
	// Now is the clock; time.Now if nil.
	Now func() time.Time

	offset atomic.Int64 // of the server's time from Now, in nanoseconds
}

// mostIDs is the maximum number of ids that a command is tried with. More than one is
// needed only if the server's clock is set between attempts.
const mostIDs = 3

// Retry is the function Retry for a command. do sends the command with a header that
// has the command's id, the same in all attempts. If the server refuses the id because
// of its time, the next attempt has a new id with the server's time. But if an earlier
// attempt may have reached a service and its outcome is unknown, Retry returns the
// refusal: with another id the command could be carried out twice.
func (c *Commands) Retry(ctx context.Context, timeout time.Duration, do func(context.Context, nats.Header) error) error {
	header := c.header()
	doubtful, ids := false, 1
	return Retry(ctx, timeout, func(ctx context.Context) error {
		for {
			err := do(ctx, header)
			var e *api.Error
			if !errors.As(err, &e) || e.ServerTime.IsZero() {
				var u undelivered
				doubtful = doubtful || !errors.As(err, &u)
				return err
			}
			c.correct(e.ServerTime)
			if doubtful || ids == mostIDs {
				return err
			}
			header = c.header()
			ids++
		}
	})
}

func (c *Commands) header() nats.Header {
	return nats.Header{bus.HeaderCommand: []string{c.id().String()}}
}

// id returns a new UUIDv7 of the server's time.
func (c *Commands) id() uuid.UUID {
	u := uuid.Must(uuid.NewV7())
	offset := c.offset.Load()
	if offset == 0 && c.Now == nil {
		return u
	}
	ms := c.now().Add(time.Duration(offset)).UnixMilli()
	for i := range 6 {
		u[i] = byte(ms >> (40 - 8*i))
	}
	return u
}

func (c *Commands) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

// correct sets the offset, so that later ids have the server's time.
func (c *Commands) correct(server time.Time) {
	c.offset.Store(int64(server.Sub(c.now())))
}
