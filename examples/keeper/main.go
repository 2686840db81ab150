// Command keeper answers the notices of expiry policies that call example.com/keeper. It keeps the
// objects that are in use, and agrees to the deletion of all others. Several processes share the calls.
//
//	go run ./examples/keeper
package main

import (
	"cmp"
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	nc, err := nats.Connect(cmp.Or(os.Getenv("NATS_URL"), nats.DefaultURL))
	if err != nil {
		return err
	}
	defer nc.Close()
	c := client.New(nc, client.WithActor("keeper"))
	return c.RunExpiry(ctx, "example.com/keeper", func(_ context.Context, call *client.ExpiryCall) (client.ExpiryAnswer, error) {
		// A real program finds out for itself.
		if who := call.Object.GetMetadata().GetAnnotations()["example.com/in-use-by"]; who != "" {
			return client.ExpiryAnswer{Until: time.Now().Add(24 * time.Hour), Reason: "in use by " + who}, nil
		}
		return client.ExpiryAnswer{Agree: true, Reason: "not in use"}, nil
	})
}
