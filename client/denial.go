package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// denialInterval is how often a request without an answer looks whether the server
// has reported that the user may not publish it.
const denialInterval = 10 * time.Millisecond

// untilDenied returns a context that ends when the NATS server reports that the user
// may not publish requests to the subject of a. The server does not answer such a
// request, so that waiting for an answer would take as long as one may take. denial
// returns the refusal, nil if there was none.
func (c *Client) untilDenied(ctx context.Context, a bus.API) (limited context.Context, stop func(), denial func() error) {
	before := c.nc.LastError()
	limited, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(denialInterval)
		defer tick.Stop()
		for {
			select {
			case <-limited.Done():
				return
			case <-tick.C:
			}
			if err := c.nc.LastError(); err != before && errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), `"`+a.Subject()+`"`) { //nolint:errorlint // another violation is another value
				cancel(c.notAllowed(a, err))
			}
		}
	}()
	stop = func() {
		cancel(nil)
		<-done
	}
	denial = func() error {
		var e *Error
		if errors.As(context.Cause(limited), &e) && e.Reason == Forbidden {
			return e
		}
		return nil
	}
	return limited, stop, denial
}

// notAllowed is the refusal that a violation of permissions means.
func (c *Client) notAllowed(a bus.API, violation error) *Error {
	what := a.Verb
	if a.Plural != "" {
		what += " " + lifecycle.ResourceName(a.Group, a.Plural)
	}
	return &Error{Reason: Forbidden, Message: fmt.Sprintf(
		"the NATS user may not %s in realm %q as actor %q: the realm is not there, or its permissions do not allow it (%v)", what, a.Realm, a.Actor, violation)}
}

// denied says of a request without an answer that it may have none for want of
// permission.
func (c *Client) denied(a bus.API, err error) error {
	var e *Error
	if errors.As(err, &e) && e.Reason == Timeout && c.nc.LastError() != nil && errors.Is(c.nc.LastError(), nats.ErrPermissionViolation) {
		return c.notAllowed(a, c.nc.LastError())
	}
	return err
}
