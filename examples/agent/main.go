// Command agent ends Pods within their grace period, as a kubelet does. The SDK calls it
// for every Pod that is being deleted with a grace period, and confirms the end of the Pod
// when the call returns nil. Several processes share the calls.
//
//	go run ./examples/agent
package main

import (
	"cmp"
	"context"
	"fmt"
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
	c := client.New(nc, client.WithActor("agent"))
	return c.RunAgent(ctx, client.Resource{Plural: "pods"}, func(_ context.Context, t *client.Termination) error {
		// A real agent stops the Pod's containers here: it asks them to end, and kills them at the deadline.
		fmt.Printf("stopping %s, at the latest in %s\n", t.Object.GetMetadata().GetName(), time.Until(t.Deadline).Round(time.Second))
		return nil
	})
}
