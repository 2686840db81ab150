package main

import (
	"fmt"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/internal/tracing"
	"github.com/coppice-gc/coppice/internal/tracing/export"
)

// The environment variables with the trace that a command belongs to, as OpenTelemetry names them.
const (
	variableParent = "TRACEPARENT"
	variableState  = "TRACESTATE"
)

// traced runs a command whose spans are exported if the environment asks for it, and if it can connect to NATS. A command that runs no services
// has a span of its own, in the trace of the environment if it has one; a benchmark has none.
func traced(a *cli.App, c *cobra.Command, run func() error) (err error) {
	if !runsServices(c) && c.Name() != "demo" && c.Flags().Lookup("server") == nil {
		return run() // it does not connect: a collector that does not answer must not delay it
	}
	service := "coppice"
	if runsServices(c) {
		service += "-" + c.Name()
	}
	report := func(err error) { a.SayWarning("OpenTelemetry: " + err.Error()) }
	if runsServices(c) {
		log := a.QuietLogger()
		report = func(err error) { log.Warn("OpenTelemetry", "error", err) }
	}
	provider, err := export.New(c.Context(), export.Config{Service: service, Version: version(), Report: report})
	if err != nil {
		report(fmt.Errorf("%w; nothing is exported", err))
	}
	if provider == nil {
		return run()
	}
	defer func() {
		if err := provider.Close(); err != nil {
			report(err)
		}
	}()
	a.Traces = provider
	if runsServices(c) || c.HasParent() && c.Parent().Name() == "bench" { // each request begins a trace
		return run()
	}
	ctx := tracing.Extract(c.Context(), nats.Header{
		tracing.HeaderParent: {os.Getenv(variableParent)}, tracing.HeaderState: {os.Getenv(variableState)},
	})
	ctx, span := tracing.Tracer(provider).Start(ctx, c.CommandPath())
	defer func() { tracing.End(span, err) }()
	c.SetContext(ctx)
	return run()
}
