package bench

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/internal/bus"
)

// echoes is how many requests echo sends.
const echoes = 20000

// echoSubject is the subject of echo's requests: one of the API, in a realm that no graph service
// serves, so that the NATS server routes it in the same way.
var echoSubject = bus.API{Realm: "echo", Actor: Actor, Verb: bus.VerbGet, Plural: "echo"}.Subject()

// echo measures how many requests a second this NATS server carries to a
// subscriber that only echoes them: size bytes each, from this many concurrent
// callers. It is an upper bound for every service on this server.
func (d *Deployment) echo(ctx context.Context, callers, size int) (perSecond float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	answering, err := d.Conn(bus.RoleAnswers)
	if err != nil {
		return 0, err
	}
	sub, err := answering.Subscribe(echoSubject, func(m *nats.Msg) { _ = m.Respond(m.Data) })
	if err != nil {
		return 0, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := answering.FlushWithContext(ctx); err != nil {
		return 0, err
	}
	request := make([]byte, size)
	start := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for range callers {
		g.Go(func() error {
			for range echoes / callers {
				if _, err := d.Client.Conn().RequestWithContext(ctx, echoSubject, request); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = g.Wait()
	return float64(echoes/callers*callers) / time.Since(start).Seconds(), err
}
