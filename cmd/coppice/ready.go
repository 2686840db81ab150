package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/internal/admin"
	"github.com/coppice-gc/coppice/internal/poll"
)

func readyCommand(a *cli.App) *cobra.Command {
	var services []string
	var wait, timeout time.Duration
	c := &cobra.Command{
		Use:     "ready",
		GroupID: "operate",
		Short:   "Check whether services are ready",
		Long: `Check whether services on this machine, or those that --service names, are ready. The
exit code is 0 if all are, and 1 otherwise; what they wait for is printed. The command
asks their HTTP servers (/readyz), and does not connect to NATS.

Without --service it asks the service whose address is in $COPPICE_HTTP, as health
checks of containers do. Without both it asks each service that listens on its default
port; there must be at least one.`,
		Example: `  coppice ready
  coppice ready --service :9440 --service http://10.0.0.7:9441 --wait 1m`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := positive(duration{"--timeout", timeout}); err != nil {
				return cli.NewUsageError(c, err)
			}
			bases := make([]*url.URL, len(services))
			for i, text := range services {
				var err error
				if bases[i], err = serviceURL(text); err != nil {
					return cli.NewUsageError(c, fmt.Errorf("--service %s: %w", text, err))
				}
			}
			return awaitServices(c.Context(), a, bases, timeout, wait)
		},
	}
	c.Flags().StringArrayVar(&services, "service", nil, "`URL` of the HTTP server of a service, or its address; may be repeated")
	c.Flags().DurationVar(&wait, "wait", 0, "how long to wait until the services are ready")
	c.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long to wait for a reply")
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

// awaitServices checks services until all are ready, or wait has passed.
func awaitServices(ctx context.Context, a *cli.App, bases []*url.URL, timeout, wait time.Duration) error {
	check := func() (report []string, err error) {
		if len(bases) > 0 {
			return checkServices(ctx, bases, timeout)
		}
		return checkDefaults(ctx, timeout)
	}
	report, err := check()
	if err != nil && wait > 0 {
		waiting, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		_ = poll.UntilAt(waiting, 100*time.Millisecond, func() (bool, error) {
			report, err = check()
			return err == nil, nil
		})
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, line := range report {
		if _, err := fmt.Fprintln(a.Stdout, line); err != nil {
			return err
		}
	}
	return err
}

// checkServices returns a line for each service that is ready, and an error for each other.
func checkServices(ctx context.Context, bases []*url.URL, timeout time.Duration) (ready []string, err error) {
	for _, base := range bases {
		name, e := checkService(ctx, base, timeout)
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		ready = append(ready, name+" is ready")
	}
	return ready, err
}

// checkDefaults is checkServices for the services on the default ports.
func checkDefaults(ctx context.Context, timeout time.Duration) (ready []string, err error) {
	listening := false
	for _, base := range defaultServices() {
		name, e := checkService(ctx, base, timeout)
		if errors.Is(e, admin.ErrNothingListens) || errors.Is(e, admin.ErrNotCoppice) {
			continue
		}
		listening = true
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		ready = append(ready, name+" is ready")
	}
	if !listening {
		return nil, fmt.Errorf("no service listens on %s to %d: start one, or name the address of its --http with --service", loopback(graphPort), scannerPort)
	}
	return ready, err
}

// defaultServices are the URLs of the default ports.
func defaultServices() (list []*url.URL) {
	for port := graphPort; port <= scannerPort; port++ {
		list = append(list, &url.URL{Scheme: "http", Host: loopback(port)})
	}
	return list
}

// checkService returns the name of a service that is ready.
func checkService(ctx context.Context, base *url.URL, timeout time.Duration) (name string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no reply within %v", timeout))
	defer cancel()
	h, err := admin.Check(ctx, base)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = cmp.Or(context.Cause(ctx), err)
		}
		return "", fmt.Errorf("%s: %w", base, err)
	}
	if h.Waiting != "" {
		return "", fmt.Errorf("%s at %s is not ready: %s", h.Service, base, h.Waiting)
	}
	return h.Service + " at " + base.String(), nil
}
