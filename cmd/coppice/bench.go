package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/allinone"
	"github.com/coppice-gc/coppice/internal/bench"
	"github.com/coppice-gc/coppice/internal/bus"
)

func (a *app) benchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "bench",
		GroupID: "operate",
		Short:   "Measure this machine, or a running deployment",
	}
	c.AddCommand(a.benchCascadeCommand())
	return c
}

func (a *app) benchCascadeCommand() *cobra.Command {
	var b bench.Cascade
	var output string
	var processors int
	c := &cobra.Command{
		Use:   "cascade",
		Short: "Delete one owner with many dependents",
		Long: `Cascade makes one owner with many dependents (random names, about 400 bytes, two
labels; one in a hundred survives by a second owner, one in a thousand is held
by an external finalizer, which is answered), deletes the owner, and takes the
time until a fresh list shows only the survivors and all work is acknowledged.

Without --server it runs everything in this process, in a temporary directory,
every commit synced to disk.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			policy, ok := map[string]string{"background": "Background", "foreground": "Foreground", "orphan": "Orphan"}[b.Policy]
			if !ok {
				return a.usage(c, fmt.Errorf("--policy %q: choose background, foreground or orphan", b.Policy))
			}
			b.Policy = policy
			return a.benchmark(c.Context(), processors, output, b.Run)
		},
	}
	a.clientFlags(c)
	c.Flags().IntVar(&b.Objects, "objects", 100000, "number of dependents")
	c.Flags().StringVar(&b.Policy, "policy", "background", "background, foreground or orphan")
	c.Flags().IntVar(&processors, "processors", 1, "number of garbage processors, without --server")
	c.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return c
}

// benchmark runs a benchmark in a stack of its own, or against a server.
func (a *app) benchmark(ctx context.Context, processors int, output string, run func(context.Context, *client.Client) (bench.Result, error)) (err error) {
	var c *client.Client
	if a.dial.Server != "" || a.dial.Context != "" {
		cl, nc, err := a.client()
		if err != nil {
			return err
		}
		defer nc.Close()
		c = cl
	} else {
		dir, err := os.MkdirTemp("", "coppice-bench-")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		stack, err := allinone.Start(ctx, allinone.Config{Dir: dir, Processors: processors, Log: a.quietLogger()})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stack.Stop()) }()
		if err := stack.Await(ctx); err != nil {
			return err
		}
		nc, err := stack.Conn(bus.LocalUser)
		if err != nil {
			return err
		}
		c = client.New(nc, client.WithActor("bench"))
	}
	r, err := run(ctx, c)
	if err != nil {
		return err
	}
	if output == "json" {
		return json.NewEncoder(a.stdout).Encode(r)
	}
	_, err = fmt.Fprintf(a.stdout, "%-28s %10s %10s %14s\n%-28s %10d %10.3f %14.0f\n",
		"BENCHMARK", "OBJECTS", "SECONDS", "OBJECTS/S", strings.ToLower(r.Name), r.Objects, r.Seconds, r.ObjectsPerSecond)
	return err
}
