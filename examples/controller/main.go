// Command controller is a controller with package reconcile. For each Site it keeps as
// many ConfigMaps as the Site's spec asks for, which the Site owns, and a directory
// for its files, which the finalizer example.com/files deletes before the Site is
// removed. Any number of processes can run: one of them works at a time.
//
//	go run ./examples/controller
//	coppice apply -f examples/controller/site.yaml
//	coppice tree sites web
//	coppice delete sites web
package main

import (
	"cmp"
	"context"
	"flag"
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
	elect := flag.Bool("elect", true, "elect a leader; without it only one process may run")
	lease := flag.Duration("lease", 15*time.Second, "duration of the leader's lease")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	actor, connection := "site-controller", []nats.Option{nats.MaxReconnects(-1)}
	if user := os.Getenv("NATS_USER"); user != "" { // where the NATS server has accounts: nats-config --controller USER=example.com/files
		actor = user
		connection = append(connection, nats.UserInfo(user, os.Getenv("NATS_PASSWORD")), nats.CustomInboxPrefix("_INBOX."+user))
	}
	nc, err := nats.Connect(cmp.Or(os.Getenv("NATS_URL"), nats.DefaultURL), connection...)
	if err != nil {
		return err
	}
	defer nc.Close()
	c := client.New(nc, client.WithActor(actor))
	files := directory(filepath.Join(os.TempDir(), "coppice-sites"))
	opts := []reconcile.Option{reconcile.WithResync(10 * time.Minute), reconcile.OnError(func(key reconcile.Key, err error) {
		log.Printf("%s: %v", key, err)
	})}
	if *elect {
		opts = append(opts, reconcile.WithLeader("example.com/sites", client.LeaseTTL(*lease), client.OnLeaderState(report)))
	}
	return run(ctx, c, files, opts...)
}

// report logs who leads.
func report(s client.LeaderState) {
	switch {
	case s.Leading:
		log.Print("this process leads")
	case s.Leader != "":
		log.Printf("%s leads; this process takes over if it does not renew its lease for %v", s.Leader, s.Remaining.Round(time.Millisecond))
	default:
		log.Print("this process does not lead")
	}
}

// run registers the kind and runs the controller until ctx ends.
func run(ctx context.Context, c client.Interface, files files, opts ...reconcile.Option) error {
	if err := register(ctx, c); err != nil {
		return err
	}
	opts = append([]reconcile.Option{reconcile.Owns(configMaps), reconcile.Workers(4)}, opts...)
	return reconcile.Run(ctx, c, sites, &controller{c: c, files: files}, opts...)
}
