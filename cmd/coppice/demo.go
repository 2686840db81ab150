package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/operate"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/read"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/poll"
	"github.com/coppice-gc/coppice/services/allinone"
)

func demoCommand(a *cli.App) *cobra.Command {
	var act string
	c := &cobra.Command{
		Use:     "demo",
		GroupID: "start",
		Short:   "Watch a Deployment being deleted in three ways, or safely",
		Long: `Run all services in this process, with an embedded NATS server, in a temporary
directory, and create a Deployment with its dependents.

--act deletion deletes it three times: in the background, in the foreground, and orphaning
its dependents. It prints the events with their causes.

--act safety plans a deletion, has it refused by a protection, paused by a brake, finished
and undone. It shows the commands with what they print.

The command fails if anything differs from what is expected.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runDemo(c.Context(), a, act) },
	}
	c.Flags().StringVar(&act, "act", actDeletion, "deletion or safety")
	cli.CompleteFlag(c, "act", actDeletion, actSafety)
	return c
}

// The acts of the demo.
const (
	actDeletion = "deletion"
	actSafety   = "safety"
)

// demoTimeout is how long all of it may take.
const demoTimeout = 5 * time.Minute

func runDemo(ctx context.Context, a *cli.App, act string) (err error) {
	if act != actDeletion && act != actSafety {
		return cli.UsageErrorf("--act %s: it is %s or %s", act, actDeletion, actSafety)
	}
	ctx, cancel := context.WithTimeout(ctx, demoTimeout)
	defer cancel()
	dir, err := os.MkdirTemp("", "coppice-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	start := time.Now()
	config := allinone.Config{Dir: dir, Version: version(), Log: a.QuietLogger(), TracerProvider: a.Traces}
	if act == actSafety {
		config.Host, config.Port = "127.0.0.1", -1 // its commands connect as those of a user
		config.Log = a.LoggerAt(slog.LevelError)   // a brake that trips is part of the demo
	}
	stack, err := allinone.Start(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stack.Stop()) }()
	if err := stack.Await(ctx); err != nil {
		return err
	}
	if err := say(a, "graph, processor, finalizers and scanner are ready in %.1fs, and meet on an embedded NATS server.\n", time.Since(start).Seconds()); err != nil {
		return err
	}
	nc, err := stack.Conn(bus.LocalUser)
	if err != nil {
		return err
	}
	d := &demo{Session: a.NewSession(client.New(nc, client.WithTracerProvider(a.Traces)), nc), stack: stack, called: make(chan struct{}, 1), release: make(chan struct{})}
	if err := d.ReadKinds(ctx); err != nil {
		return err
	}
	finish := d.control(ctx)
	if act == actSafety {
		err = d.safety(ctx, dir, stack.Server().URL())
	} else {
		err = d.rounds(ctx)
	}
	if err := errors.Join(err, finish()); err != nil {
		return err
	}
	return operate.Verify(ctx, d.Session, demoTimeout, false)
}

// rounds deletes the Deployment in all ways.
func (d *demo) rounds(ctx context.Context) error {
	for i, r := range demoRounds {
		if err := d.round(ctx, i+1, r); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

func say(a *cli.App, format string, args ...any) error {
	_, err := fmt.Fprintf(a.Stdout, format, args...)
	return err
}

// demo is a running demonstration.
type demo struct {
	*cli.Session
	stack *allinone.Stack
	// called receives when the finalizer of the Pod that is shown waiting is
	// called; the finalizer returns when release is closed.
	called, release chan struct{}
}

// as returns a client that acts as an actor.
func (d *demo) as(actor string) *client.Client { return client.New(d.Conn, client.WithActor(actor)) }

// demoFinalizer is on one of the Pods of the manifests.
const demoFinalizer = "example.com/bucket"

// control runs the two controllers that deletions wait for, until finish is called:
// the kubelet, an agent that stops the containers of Pods, and a finalizer that empties
// the bucket of a Pod after that.
func (d *demo) control(ctx context.Context) (finish func() error) {
	ctx, cancel := context.WithCancel(ctx)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return d.as("kubelet").RunAgent(ctx, demoKinds["Pod"].resource, func(context.Context, *client.Termination) error { return nil })
	})
	g.Go(func() error { return d.as("bucket-controller").RunFinalizer(ctx, demoFinalizer, d.emptyBucket) })
	return func() error {
		cancel()
		return g.Wait()
	}
}

func (d *demo) emptyBucket(ctx context.Context, call *client.Call) error {
	m := call.Object.GetMetadata()
	if err := poll.Until(ctx, func() (bool, error) {
		pod, err := d.Client.Resource(call.Resource, m.GetNamespace()).Get(ctx, m.GetName())
		return pod.GetMetadata().GetDeletionGracePeriodSeconds() == 0, err
	}); err != nil {
		return err
	}
	if m.GetNamespace() != blockedIn {
		return nil
	}
	select {
	case d.called <- struct{}{}:
	default: // it is called again
	}
	select {
	case <-d.release:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// round creates a Deployment with all its dependents, deletes it, and compares the
// outcome with what is expected.
func (d *demo) round(ctx context.Context, n int, r demoRound) error {
	if err := say(d.App, "\n%d. %s: %s\n\n", n, r.name, r.about); err != nil {
		return err
	}
	family, err := d.populate(ctx, r.namespace)
	if err != nil {
		return err
	}
	if err := read.Tree(ctx, d.Session, "deploy/web", r.namespace); err != nil {
		return err
	}
	before := family["deployments.apps/web"]
	result, err := d.as("ana").Resource(demoKinds["Deployment"].resource, r.namespace).Delete(ctx, "web", client.PropagationPolicy(r.policy))
	if err != nil {
		return err
	}
	if err := say(d.App, "\nana deletes it: --cascade=%s\n", strings.ToLower(r.policy)); err != nil {
		return err
	}
	if err := r.checkAnswer(before, result); err != nil {
		return err
	}
	if r.namespace == blockedIn {
		select {
		case <-d.called:
		case <-ctx.Done():
			return fmt.Errorf("the finalizer %s was not called: %w", demoFinalizer, ctx.Err())
		}
		if err := d.awaitLeft(ctx, r.namespace, r.waiting); err != nil {
			return err
		}
		if err := read.Tree(ctx, d.Session, "deploy/web", r.namespace); err != nil {
			return err
		}
		if err := say(d.App, "bucket-controller is done\n"); err != nil {
			return err
		}
		close(d.release)
	}
	if err := d.awaitLeft(ctx, r.namespace, r.left); err != nil {
		return err
	}
	if err := d.awaitQuiet(ctx); err != nil {
		return err
	}
	return d.report(ctx, r)
}

// report shows the events of a round, and checks them.
func (d *demo) report(ctx context.Context, r demoRound) error {
	h, err := d.History(ctx)
	if err != nil {
		return err
	}
	events, _, err := h.Tail(ctx, 1000, history.AllCommits, client.LogOptions{Namespace: r.namespace}, func(e *client.LogEvent) bool { return e.Namespace == r.namespace })
	if err != nil {
		return err
	}
	if err := say(d.App, "\nwhat the event log says:\n"); err != nil {
		return err
	}
	w := &history.Writer{W: d.Stdout, Ink: d.Ink(), Now: d.Clock, Find: h.Find}
	happened := make([]happening, len(events))
	for i, e := range events {
		if err := w.Event(ctx, e); err != nil {
			return err
		}
		why, err := history.Because(ctx, e, h.Find)
		if err != nil {
			return err
		}
		happened[i] = happening{what: e.Type + " " + e.Key(), why: strings.Join(why, ", because ")}
	}
	if err := r.checkLog(happened); err != nil {
		return err
	}
	kept := slices.Sorted(maps.Keys(r.left))
	return say(d.App, "%s; %s\n", d.Ink().Green("as it should be"), cmp.Or(terminal.Prefixed("left: ", strings.Join(kept, ", ")), "nothing is left"))
}
