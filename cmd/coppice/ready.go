package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/internal/admin"
	"github.com/coppice-gc/coppice/internal/bus/dial"
	"github.com/coppice-gc/coppice/internal/poll"
)

func readyCommand(a *cli.App) *cobra.Command {
	var services []string
	var wait, timeout time.Duration
	c := &cobra.Command{
		Use:     "ready [SERVICE...]",
		GroupID: "operate",
		Short:   "Check whether services are ready",
		Long: `Check whether services are ready. The exit code is 0 if all are, and 1 otherwise; what
they wait for is printed. The command asks their HTTP servers (/readyz), and does not
connect to NATS.

Arguments name the services of this machine that must be ready, each at its default
port: graph, processor, finalizers, scanner, console, up. --service names others. Without both
the command asks the service whose address is in $COPPICE_HTTP, as health checks of
containers do, or else every service that listens on a default port. Those that do not
run are then not missed.`,
		Example: `  coppice ready graph processor finalizers --wait 1m
  coppice ready --service :9440 --service http://10.0.0.7:9441`,
		ValidArgs: slices.Sorted(maps.Keys(defaultPorts)),
		Args:      cobra.OnlyValidArgs,
		RunE: func(c *cobra.Command, names []string) error {
			if err := positive(duration{"--timeout", timeout}); err != nil {
				return cli.NewUsageError(c, err)
			}
			var asked []askedService
			for _, name := range names {
				asked = append(asked, askedService{name: name, base: defaultService(defaultPorts[name])})
			}
			if len(names) > 0 && os.Getenv(variableOf(c.Flag("service"))) != "" {
				services = nil // those of $COPPICE_HTTP
			}
			for _, text := range services {
				base, err := serviceURL(text)
				if err != nil {
					return cli.NewUsageError(c, fmt.Errorf("--service %s: %w", text, err))
				}
				asked = append(asked, askedService{base: base})
			}
			return awaitServices(c.Context(), a, asked, timeout, wait)
		},
	}
	c.Flags().StringArrayVar(&services, "service", nil, "`URL` of the HTTP server of a service, or its address; may be repeated")
	c.Flags().DurationVar(&wait, "wait", 0, "how long to wait until the services are ready")
	c.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long to wait for a reply")
	return c
}

// serviceURL returns the URL of a service, from its URL or from the address that its --http has. An address
// without a host, or of all interfaces, is asked on the loopback interface.
func serviceURL(text string) (*url.URL, error) {
	if text == noHTTP {
		return nil, errors.New("the service has no HTTP server: give it an address with --http")
	}
	if _, err := strconv.ParseUint(text, 10, 16); err == nil {
		text = ":" + text
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Port() == "" && u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, fmt.Errorf("write a URL such as http://127.0.0.1:%d, or an address such as :%d", graphPort, graphPort)
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() == "" || ip != nil && ip.IsUnspecified() {
		u.Host = net.JoinHostPort("127.0.0.1", u.Port())
	}
	return u, nil
}

// defaultPorts are the default ports by service.
var defaultPorts = map[string]int{"graph": graphPort, "up": graphPort, "processor": processorPort, "finalizers": finalizersPort, "scanner": scannerPort, "console": consoleHealthPort}

// askedService is a service that is asked whether it is ready.
type askedService struct {
	name string // that it must have; "" for any
	base *url.URL
	// optional: nothing need listen there.
	optional bool
}

// errNoService is the error of checkServices if no optional service listens.
var errNoService = fmt.Errorf("no service listens on %s to %d: start one, or name the address of its --http with --service", loopback(graphPort), consoleHealthPort)

// awaitServices checks services until all are ready, or wait has passed. Without any it checks those on default ports.
func awaitServices(ctx context.Context, a *cli.App, asked []askedService, timeout, wait time.Duration) error {
	if len(asked) == 0 {
		for _, base := range defaultServices() {
			asked = append(asked, askedService{base: base, optional: true})
		}
	}
	ready, err := checkServices(ctx, asked, timeout)
	if err != nil && wait > 0 {
		waiting, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		_ = poll.UntilAt(waiting, 100*time.Millisecond, func() (bool, error) {
			r, e := checkServices(waiting, asked, timeout)
			if waiting.Err() == nil {
				ready, err = r, e
			}
			return e == nil, nil
		})
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, line := range ready {
		if _, err := fmt.Fprintln(a.Stdout, line); err != nil {
			return err
		}
	}
	return err
}

// checkServices returns a line for each service that is ready, and an error for each other.
func checkServices(ctx context.Context, asked []askedService, timeout time.Duration) (ready []string, err error) {
	lines, errs := make([]string, len(asked)), make([]error, len(asked))
	var all sync.WaitGroup
	for i, one := range asked {
		all.Go(func() { lines[i], errs[i] = checkService(ctx, one, timeout) })
	}
	all.Wait()
	listening := false
	for i, one := range asked {
		if one.optional && (errors.Is(errs[i], admin.ErrNothingListens) || errors.Is(errs[i], admin.ErrNotCoppice)) {
			continue
		}
		listening = true
		if errs[i] == nil {
			ready = append(ready, lines[i])
		}
		err = errors.Join(err, errs[i])
	}
	if !listening {
		return nil, errNoService
	}
	return ready, err
}

// defaultService returns the URL of a default port.
func defaultService(port int) *url.URL { return &url.URL{Scheme: "http", Host: loopback(port)} }

// defaultServices are the URLs of the default ports.
func defaultServices() (list []*url.URL) {
	for port := graphPort; port <= consoleHealthPort; port++ {
		list = append(list, defaultService(port))
	}
	return list
}

// checkService returns a line about a service that is ready.
func checkService(ctx context.Context, asked askedService, timeout time.Duration) (line string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no reply within %v", timeout))
	defer cancel()
	at := dial.Redacted(asked.base.String())
	h, err := admin.Check(ctx, asked.base)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("%s: %w", at, cmp.Or(context.Cause(ctx), err))
	case err != nil:
		err = fmt.Errorf("%s: %w", at, err)
	case asked.name != "" && asked.name != h.Service:
		err = fmt.Errorf("%s: %s listens there, and not %s: name the address of the --http of %s with --service", at, h.Service, asked.name, asked.name)
	case h.Waiting != "":
		err = fmt.Errorf("%s at %s is not ready: %s", h.Service, at, h.Waiting)
	}
	if err != nil && asked.name != "" {
		err = fmt.Errorf("%s: %w", asked.name, err)
	}
	return h.Service + " at " + at + " is ready", err
}
