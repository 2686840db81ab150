// Command controller is a controller with package reconcile. For each Site it keeps as
// many ConfigMaps as the Site's spec asks for, which the Site owns, and a directory
// for its files, which the finalizer example.com/files deletes before the Site is
// removed. Run one at a time.
//
//	go run ./examples/controller
//	coppice apply -f examples/controller/site.yaml
//	coppice tree sites web
//	coppice delete sites web
package main

import (
	"cmp"
	"context"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/reconcile"
)

func main() {
	if err := start(); err != nil {
		log.Fatal(err)
	}
}

func start() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	nc, err := nats.Connect(cmp.Or(os.Getenv("NATS_URL"), nats.DefaultURL))
	if err != nil {
		return err
	}
	defer nc.Close()
	c := client.New(nc, client.WithActor("site-controller"))
	files := directory(filepath.Join(os.TempDir(), "coppice-sites"))
	return run(ctx, c, files, reconcile.WithResync(10*time.Minute), reconcile.OnError(func(key reconcile.Key, err error) {
		log.Printf("%s: %v", key, err)
	}))
}

// run registers the kind and runs the controller until ctx ends.
func run(ctx context.Context, c client.Interface, files files, opts ...reconcile.Option) error {
	if err := register(ctx, c); err != nil {
		return err
	}
	opts = append([]reconcile.Option{reconcile.Owns(configMaps), reconcile.Workers(4)}, opts...)
	return reconcile.Run(ctx, c, sites, &controller{c: c, files: files}, opts...)
}
