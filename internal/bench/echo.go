package bench

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
)

// echoes is how many requests echo makes.
const echoes = 20000

// echo is how many requests a second this NATS server carries to somebody who
// does nothing but answer, of so many bytes each, by so many callers: more than
// that no service on it answers.
func (d *Deployment) echo(ctx context.Context, callers, size int) (perSecond float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	answering, err := d.conn(bus.RoleGraph)
	if err != nil {
		return 0, err
	}
	subject := bus.API{Realm: d.Client.Realm(), Actor: actor, Verb: "echo", Plural: "echo"}.Subject()
	sub, err := answering.Subscribe(subject, func(m *nats.Msg) { _ = m.Respond(m.Data) })
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
				if _, err := d.Client.Conn().RequestWithContext(ctx, subject, request); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = g.Wait()
	return float64(echoes/callers*callers) / time.Since(start).Seconds(), err
}

// bare is somebody on a NATS server of its own who answers each request once
// it is appended to a stream, on disk, and does nothing else: no service with a
// log on NATS is faster.
type bare struct {
	server         *natsd.Server
	asking, answer *nats.Conn
}

const bareSubject = "bare"

func startBare(ctx context.Context, dir string) (b *bare, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	b = &bare{}
	if b.server, err = natsd.Start(natsd.Config{Dir: filepath.Join(dir, "bare")}); err != nil {
		return nil, err
	}
	if err = b.serve(ctx); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bare) serve(ctx context.Context) (err error) {
	for _, nc := range []**nats.Conn{&b.asking, &b.answer} {
		if *nc, err = nats.Connect(b.server.URL(), b.server.Options("")...); err != nil {
			return err
		}
	}
	js, err := jetstream.New(b.answer)
	if err != nil {
		return err
	}
	if _, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "bare-log", Subjects: []string{"bare-log"}}); err != nil {
		return err
	}
	if _, err = b.answer.Subscribe(bareSubject, func(m *nats.Msg) {
		// A request that is not answered fails by its time.
		if _, err := js.Publish(context.WithoutCancel(ctx), "bare-log", m.Data); err == nil {
			_ = m.Respond(nil)
		}
	}); err != nil {
		return err
	}
	return b.answer.FlushWithContext(ctx)
}

// request makes one request of so many bytes.
func (b *bare) request(ctx context.Context, size int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	request := make([]byte, size)
	start := time.Now()
	_, err := b.asking.RequestWithContext(ctx, bareSubject, request)
	return time.Since(start), err
}

func (b *bare) close() error {
	for _, nc := range []*nats.Conn{b.asking, b.answer} {
		if nc != nil {
			nc.Close()
		}
	}
	return b.server.Shutdown()
}
