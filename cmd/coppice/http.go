package main

import (
	"net"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/internal/admin"
)

// The default ports of the HTTP servers. 'coppice up' contains a graph service, and has its port.
const (
	graphPort = 9440 + iota
	processorPort
	finalizersPort
	scannerPort
	consoleHealthPort // of /metrics: people open the console itself at console.DefaultPort
)

// loopback returns the address of a port of the loopback interface.
func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// httpFlag is the flag with the address of the HTTP server of a service.
type httpFlag struct {
	address string
	command *cobra.Command
}

// noHTTP is the value of the flag for no server.
const noHTTP = "none"

func (f *httpFlag) add(c *cobra.Command, port int) {
	f.command = c
	c.Flags().StringVar(&f.address, "http", loopback(port), "`ADDRESS` of /healthz, /readyz and /metrics: :PORT for all interfaces, "+noHTTP+" for no server. If another program has the default port, any free one is used")
}

// listen returns the HTTP server, nil for none.
func (f *httpFlag) listen(registry *prometheus.Registry, ready func() error, status func() string, profiles bool) (*admin.Server, error) {
	if f.address == "" || f.address == noHTTP {
		return nil, nil
	}
	return admin.Listen(admin.Config{
		Address: f.address, AnyPort: !f.command.Flags().Changed("http"), Service: f.command.Name(),
		Registry: registry, Ready: ready, Status: status, Profiles: profiles,
	})
}
