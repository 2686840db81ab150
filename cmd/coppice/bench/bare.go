package bench

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus/natsd"
)

// bare is a service on a NATS server of its own that appends each request to a
// stream, on disk, and replies. It does nothing else: no service with a log on
// NATS is faster.
type bare struct {
	server         *natsd.Server
	asking, answer *nats.Conn
}

// The subject of bare's requests, and the name and subject of its stream.
const (
	bareSubject = "bare"
	bareLog     = "bare-log"
)

// startBare starts the server and the service, with their data in dir.
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
	if _, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: bareLog, Subjects: []string{bareLog}}); err != nil {
		return err
	}
	if _, err = b.answer.Subscribe(bareSubject, func(m *nats.Msg) {
		// A request without a reply fails by its timeout.
		if _, err := js.Publish(context.WithoutCancel(ctx), bareLog, m.Data); err == nil {
			_ = m.Respond(nil)
		}
	}); err != nil {
		return err
	}
	return b.answer.FlushWithContext(ctx)
}

// request sends one request of size bytes and waits for the reply.
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
