package overview

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coppice-gc/coppice/client"
)

// part is a part of an overview that is read from the realm. Callers share what was read within the last interval. If a read
// fails, they receive its error with what was read before, unless that is older than patience or the user may not read it
// any more.
type part[T any] struct {
	interval time.Duration
	read     func(context.Context) (T, error)

	mu    sync.Mutex
	at    time.Time
	was   result[T]
	known time.Time     // when the value of was was read
	ready chan struct{} // closed when the read that is in flight has ended; nil if there is none
}

// result is what a read has returned.
type result[T any] struct {
	value T
	err   error
}

// get returns what was read within the last interval, or reads for at most timeout. It returns an error when ctx ends;
// the read goes on for other callers.
func (p *part[T]) get(ctx context.Context, now func() time.Time, timeout time.Duration) (T, error) {
	p.mu.Lock()
	if age := now().Sub(p.at); p.ready == nil && !p.at.IsZero() && age >= 0 && age < p.interval {
		defer p.mu.Unlock()
		return p.was.value, p.was.err
	}
	ready := p.ready
	if ready == nil {
		ready = make(chan struct{})
		p.ready = ready
		go p.refresh(context.WithoutCancel(ctx), now, timeout)
	}
	p.mu.Unlock()
	select {
	case <-ready:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.was.value, p.was.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

func (p *part[T]) refresh(ctx context.Context, now func() time.Time, timeout time.Duration) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var r result[T]
	value, err := p.read(limited)
	switch {
	case err == nil:
		r.value = value
	case errors.Is(err, context.DeadlineExceeded):
		r.err = fmt.Errorf("no reply within %v", timeout)
	default:
		r.err = err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = now()
	switch {
	case r.err == nil:
		p.known = p.at
	case p.at.Sub(p.known) < patience && !errors.Is(r.err, client.ErrForbidden):
		r.value = p.was.value
	}
	p.was = r
	close(p.ready)
	p.ready = nil
}

// why says why a part could not be read.
func why(err error) string {
	var refused *client.Error
	if errors.As(err, &refused) {
		err = refused // without what the request was wrapped in
	}
	return err.Error()
}
