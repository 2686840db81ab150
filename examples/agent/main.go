// Command agent ends Pods within their grace period, as a kubelet does: it is
// called for every Pod that is being deleted and has one, stops what the Pod
// runs, and the SDK confirms. Run as many as you like; they share the calls.
//
//	go run ./examples/agent
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
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
	c := client.New(nc, client.WithActor("agent"))
	return c.RunAgent(ctx, client.Resource{Plural: "pods"}, func(_ context.Context, t *client.Termination) error {
		// Here the Pod's containers would be stopped: gently, and hard at the deadline.
		fmt.Printf("stopping %s, at the latest in %s\n", t.Object.GetMetadata().GetName(), time.Until(t.Deadline).Round(time.Second))
		return nil
	})
}
