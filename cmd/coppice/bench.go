package main

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/bench"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
)

// benchServer says in the help texts what is measured.
const benchServer = `Without a server all services run here, in a temporary directory. Every commit is
synced to disk before it is acknowledged, and the log is archived as 'coppice up' does.

With --server or --context the services of that realm are measured; $NATS_URL and
$NATS_CONTEXT are not enough. Each run creates objects in a new namespace,
bench-ID. What the benchmark does not delete remains there: 'coppice delete all --all
-n bench-ID' deletes it. Connect as the user that 'coppice nats-config --bench' adds.`

func benchCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:     "bench",
		GroupID: "operate",
		Short:   "Measure this machine, or a running deployment",
		Long: `Measure Coppice end to end, and check the outcome. Objects have about 400 bytes,
random names, two labels and one owner.

` + benchServer,
	}
	for _, b := range bench.Commands {
		c.AddCommand(benchmarkCommand(a, b))
	}
	return c
}

func benchmarkCommand(a *cli.App, b bench.Command) *cobra.Command {
	config := bench.Config{Version: version(), Archive: archiveOfUp}
	c := &cobra.Command{
		Use:   b.Name,
		Short: b.Short,
		Long:  cmp.Or(b.Long, b.Short+".") + "\n\n" + benchServer,
		Args:  cobra.NoArgs,
	}
	flags := bench.AddFlags(c.Flags())
	flags.Lookup("dir").Usage += ", without --server"
	run := b.Flags(flags)
	flags.Count(&config.Processors, "processors", 1, "number of garbage processors, without --server")
	flags.BoolVar(&config.Processes, "processes", false, "run each service as a process of its own, without --server")
	a.ClientFlags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := flags.Validate(); err != nil {
			return cli.NewUsageError(c, err)
		}
		config.Log, config.Traces = a.QuietLogger(), a.Traces
		if !c.Flags().Changed("server") && !c.Flags().Changed("context") {
			return flags.RunHere(c, config, func(ctx context.Context, config bench.Config) (r *bench.Result, err error) {
				d, err := bench.Deploy(ctx, config)
				if err != nil {
					return nil, err
				}
				defer func() { err = errors.Join(err, d.Close()) }()
				return run.Run(ctx, d)
			})
		}
		cl, nc, err := a.NewClient(c.Context())
		if err != nil {
			return err
		}
		defer nc.Close()
		return flags.Run(c, config, func(ctx context.Context, config bench.Config) (*bench.Result, error) {
			return run.Run(ctx, bench.Running(cl, config))
		})
	}
	return c
}
