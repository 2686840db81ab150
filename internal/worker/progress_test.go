package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// slowError is an error whose text takes until goOn is closed.
type slowError struct{ began, goOn chan struct{} }

func (e *slowError) Error() string {
	close(e.began)
	<-e.goOn
	return "slow"
}

// No report of progress follows the outcome of an attempt. It would replace the delay that the
// outcome names by the acknowledgement wait.
func TestProgressEndsBeforeTheOutcome(t *testing.T) {
	t.Parallel()
	all := bus.Role{Name: "all", Publish: []string{">"}, Subscribe: []string{">"}}
	nc := testkit.Conn(t, testkit.StartNATS(t, natsd.Config{Roles: []bus.Role{all}}), all.Name)
	sent, err := nc.SubscribeSync(nc.NewInbox())
	must.Succeed(t, err)
	synctest.Test(t, func(t *testing.T) {
		before, returned := &slowError{make(chan struct{}), make(chan struct{})}, make(chan struct{})
		c := &Config{Handle: func(context.Context, *Message) error {
			<-before.began
			return errors.New("failed again")
		}}
		c.defaults()
		c.failed.set(1, before) // the report names it
		go func() {
			defer close(returned)
			handle(t.Context(), c, &Message{Sequence: 1, Delivered: 2, nc: nc, reply: sent.Subject}, time.Minute)
		}()
		<-before.began
		synctest.Wait() // the handler has returned while the report is being made
		close(before.goOn)
		<-returned
		synctest.Wait()
	})
	for _, want := range []string{inProgress, nak} {
		m, err := sent.NextMsg(testkit.Timeout)
		must.Succeed(t, err)
		if !strings.HasPrefix(string(m.Data), want) {
			t.Errorf("sent %s, want %s", m.Data, want)
		}
	}
}
