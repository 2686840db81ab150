// Command finalizer is an external finalizer: it is called for every object
// that is being deleted and has the finalizer example.com/bucket, cleans up, and the SDK
// removes the finalizer. Run as many as you like; they share the calls.
//
//	go run ./examples/finalizer
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	url := os.Getenv("NATS_URL")
	if url == "" {
		url = nats.DefaultURL
	}
	nc, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer nc.Close()
	c := client.New(nc, client.WithActor("bucket-controller"))
	return c.RunFinalizer(ctx, "example.com/bucket", func(_ context.Context, call *client.Call) error {
		// Here the bucket of the object would be emptied and deleted.
		fmt.Printf("cleaning up after %s/%s\n", call.Resource, call.Object.GetMetadata().GetName())
		return nil
	})
}
