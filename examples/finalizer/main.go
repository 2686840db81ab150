// Command finalizer is an external finalizer. The SDK calls it for every object that is
// being deleted and has the finalizer example.com/bucket, and removes the finalizer when
// the call returns nil. Several processes share the calls.
//
//	go run ./examples/finalizer
//
// NATS_URL has the servers. Where they have accounts, NATS_USER is the user of the
// finalizer, and NATS_PASSWORD_FILE the file with the password.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

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
	actor := cmp.Or(os.Getenv("NATS_USER"), "bucket-controller")
	options := []nats.Option{nats.CustomInboxPrefix("_INBOX." + actor)}
	if file := os.Getenv("NATS_PASSWORD_FILE"); file != "" {
		password, err := os.ReadFile(file) //nolint:gosec // the user of the program names the file
		if err != nil {
			return err
		}
		options = append(options, nats.UserInfo(actor, strings.TrimSpace(string(password))))
	}
	nc, err := nats.Connect(cmp.Or(os.Getenv("NATS_URL"), nats.DefaultURL), options...)
	if err != nil {
		return err
	}
	defer nc.Close()
	c := client.New(nc, client.WithActor(actor))
	return c.RunFinalizer(ctx, "example.com/bucket", func(_ context.Context, call *client.Call) error {
		// A real finalizer empties and deletes the object's bucket here.
		fmt.Printf("cleaning up after %s/%s\n", call.Resource, call.Object.GetMetadata().GetName())
		return nil
	})
}
