package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/admission"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/wholelog"
)

// ErrUnreadable returns the error for a failed read. It is retryable if this process stops, if its
// state has failed, or if the archive cannot be read now: a later attempt, perhaps at another
// process, may succeed.
func (s *Server) ErrUnreadable(err error) *lifecycle.Error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &lifecycle.Error{Reason: api.ErrTimeout, Message: fmt.Sprintf(
			"realm %s: the request took longer than %v and was stopped; request less at once, or try again later", s.Realm, ReadTime)}
	case errors.Is(err, context.Canceled):
		return s.ErrStopping()
	}
	var body *state.UnreadableError
	if errors.As(err, &body) {
		return body.Refusal(s.State.Kinds())
	}
	var unavailable *wholelog.UnavailableError
	if errors.As(err, &unavailable) {
		return &lifecycle.Error{
			Reason: api.ErrServiceUnavailable, RetryAfter: time.Second,
			Message: fmt.Sprintf("realm %s: the archive cannot be read now: %v", s.Realm, err),
		}
	}
	if s.State.Failure() == nil {
		return &lifecycle.Error{Reason: api.ErrInternalError, Message: err.Error()}
	}
	return &lifecycle.Error{
		Reason: api.ErrServiceUnavailable, RetryAfter: 250 * time.Millisecond,
		Message: fmt.Sprintf("realm %s: this process cannot read its state now; try again: this or another process serves the realm then", s.Realm),
	}
}

// ErrStopping returns the error for a request that a service does not handle any more.
func (s *Server) ErrStopping() *lifecycle.Error {
	return &lifecycle.Error{
		Reason: api.ErrServiceUnavailable, RetryAfter: 250 * time.Millisecond,
		Message: fmt.Sprintf("realm %s: this graph service no longer serves the realm; try again", s.Realm),
	}
}

// ErrOverloaded returns the error for a read that gets no place. why is the error of the limiter; nil
// for another limit of the realm.
func (s *Server) ErrOverloaded(ctx context.Context, why error) *lifecycle.Error {
	if ctx.Err() != nil {
		return s.ErrStopping()
	}
	e := &lifecycle.Error{
		Reason: api.ErrTooManyRequests, RetryAfter: 50 * time.Millisecond,
		Message: fmt.Sprintf("realm %s: too many reads are under way; try again later", s.Realm),
	}
	if errors.Is(why, admission.ErrShared) {
		e.Message = fmt.Sprintf("this process: too many reads are under way in all realms to take one more in realm %s; try again later", s.Realm)
	}
	return e
}

// ErrJetStream returns the error for an operation that JetStream did not do.
func (s *Server) ErrJetStream(what string, err error) *lifecycle.Error {
	e := &lifecycle.Error{Reason: api.ErrInternalError, Message: fmt.Sprintf("realm %s: %s: %v", s.Realm, what, err)}
	if bus.IsNotReady(err) || bus.Classify(err) == bus.Retry {
		e.Reason, e.RetryAfter = api.ErrServiceUnavailable, 250*time.Millisecond
	}
	return e
}
