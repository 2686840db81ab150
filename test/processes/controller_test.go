//go:build unix

package processes_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/reconcile"
	"github.com/coppice-gc/coppice/internal/bus"
)

// The variables of a process of the test that is a controller: its name, the file to which it writes what it does, and the
// duration of its lease.
const (
	controllerName = "TEST_CONTROLLER"
	controllerFile = "TEST_CONTROLLER_FILE"
	controllerTTL  = "TEST_CONTROLLER_TTL"
	// controllerPause is the pause between two calls; 100 ms without it.
	controllerPause = "TEST_CONTROLLER_PAUSE"
)

// controllerRole is the role of these processes.
var controllerRole = bus.ControllerRole("led", nil, bus.AnyRealm)

// counter is the object that the leader writes again and again.
const counter = "counter"

// runController runs the process of a controller until it is terminated.
func runController() {
	if err := controller(); err != nil {
		say("failed:", err)
		os.Exit(1)
	}
}

// say writes a line for the test, which reads the output of the process.
func say(words ...any) { _, _ = fmt.Fprintln(os.Stdout, words...) }

func controller() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	name := os.Getenv(controllerName)
	ttl, err := time.ParseDuration(os.Getenv(controllerTTL))
	if err != nil {
		return err
	}
	file, err := os.OpenFile(os.Getenv(controllerFile), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	nc, err := nats.Connect(os.Getenv("NATS_URL"), nats.UserInfo(controllerRole.Name, os.Getenv("NATS_PASSWORD")), nats.CustomInboxPrefix(bus.InboxPrefix(controllerRole.Name)),
		nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		return err
	}
	defer nc.Close()
	c := client.New(nc, client.WithActor(controllerRole.Name))
	pause, err := time.ParseDuration(cmp.Or(os.Getenv(controllerPause), "100ms"))
	if err != nil {
		return err
	}
	work := func(ctx context.Context, key reconcile.Key) (reconcile.Result, error) {
		if _, err := fmt.Fprintln(file, "begin", name); err != nil {
			return reconcile.Result{}, err
		}
		_, err := c.Resource(client.Resource{Plural: "configmaps"}, key.Namespace).Patch(ctx, key.Name, fmt.Appendf(nil, `{"metadata":{"labels":{"writer":%q,"at":"t%d"}}}`, name, time.Now().UnixNano()))
		_, fail := fmt.Fprintln(file, "end", name)
		if fail != nil {
			err = fail
		}
		return reconcile.Result{RequeueAfter: pause}, err
	}
	return reconcile.Run(ctx, c, client.Resource{Plural: "configmaps"}, reconcile.Func(work), reconcile.InNamespace(namespace),
		reconcile.OnError(func(key reconcile.Key, err error) { say("error", key, err) }),
		reconcile.WithLeader("example.com/led", client.LeaseTTL(ttl), client.LeaderName(name), client.OnLeaderState(func(s client.LeaderState) {
			switch {
			case s.Leading:
				say("leads")
			case s.Leader != "":
				say("follows", s.Leader)
			default:
				say("does not lead")
			}
		})))
}
