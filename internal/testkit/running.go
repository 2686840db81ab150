package testkit

import (
	"context"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// Running is a service that runs until its test has ended, unless the test stops it before.
type Running struct {
	tb      testing.TB
	cancel  context.CancelFunc
	ended   chan struct{}
	err     error
	mayFail bool
}

// Run runs a service. If the service fails, so does the test when it ends, unless the test has
// called Wait or MayFail.
func Run(tb testing.TB, run func(context.Context) error) *Running {
	tb.Helper()
	// Without a deadline, as in a program: JetStream then limits each call by itself.
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	r := &Running{tb: tb, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.err = run(ctx)
	}()
	tb.Cleanup(func() {
		cancel()
		<-r.ended
		if r.err != nil && !r.mayFail {
			tb.Error(r.err)
		}
	})
	return r
}

// MayFail has the test ignore an error with which the service ends after the test.
func (r *Running) MayFail() *Running {
	r.mayFail = true
	return r
}

// Cancel ends the context of the service. The service may still run when Cancel returns.
func (r *Running) Cancel() { r.cancel() }

// Ended is closed when the service has ended.
func (r *Running) Ended() <-chan struct{} { return r.ended }

// Err is the error with which the service has ended. It must not be called before.
func (r *Running) Err() error { return r.err }

// Wait waits until the service has ended, and returns its error.
func (r *Running) Wait() error {
	r.tb.Helper()
	r.mayFail = true // the caller has the error
	Receive(r.tb, Context(r.tb), "the end of the service", r.ended)
	return r.err
}

// Stop ends the service, and fails the test if the service has failed.
func (r *Running) Stop() {
	r.tb.Helper()
	r.cancel()
	must.Succeed(r.tb, r.Wait())
}
