// Package admin serves a service's health and metrics over HTTP:
//
//	/healthz       200 while the process is alive
//	/readyz        200 when it is at work, otherwise 503 and what it waits for
//	/metrics       Prometheus
//	/debug/pprof/  profiles, if asked for
package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Server serves until Run's context ends.
type Server struct {
	listener net.Listener
	http     http.Server
	taken    string
}

// NewRegistry returns a registry with the metrics of the process.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// RegisterBuild adds a metric with the version of the program.
func RegisterBuild(r prometheus.Registerer, version string) {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "coppice_build_info", Help: "1, with the version of this program and of Go."}, []string{"version", "go"})
	g.WithLabelValues(version, runtime.Version()).Set(1)
	r.MustRegister(g)
}

// Config says what a service serves, and where.
type Config struct {
	// Address is HOST:PORT. Without a host the server listens on all interfaces.
	Address string
	// AnyPort lets a free port of the same host replace a port that is in use.
	AnyPort bool
	// Service is the name of the service, which the header ServiceHeader of every reply has.
	Service  string
	Registry *prometheus.Registry
	// Ready returns what the service waits for, nil if it is ready.
	Ready func() error
	// Status returns what /readyz adds for a service that is ready; nil for nothing.
	Status func() string
	// Profiles adds /debug/pprof/.
	Profiles bool
}

// ServiceHeader is the header of HTTP replies with the name of the service.
const ServiceHeader = "Coppice-Service"

// Listen listens at the address.
func Listen(c Config) (*Server, error) {
	host, port, err := net.SplitHostPort(c.Address)
	if err == nil && port == "" {
		err = errors.New("missing port in address")
	}
	if err != nil {
		return nil, fmt.Errorf("%q is not an address such as 127.0.0.1:8080 or :8080: %w", c.Address, err)
	}
	s := &Server{}
	s.listener, err = net.Listen("tcp", c.Address)
	if c.AnyPort && port != "0" && errors.Is(err, syscall.EADDRINUSE) {
		s.taken = c.Address
		s.listener, err = net.Listen("tcp", net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot serve metrics at %s: %w; choose another address with --http", c.Address, err)
	}
	s.http = http.Server{Handler: c.handler(), ReadHeaderTimeout: 5 * time.Second}
	return s, nil
}

func (c *Config) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := c.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ready")
		if c.Status != nil {
			_, _ = fmt.Fprint(w, c.Status())
		}
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(c.Registry, promhttp.HandlerOpts{}))
	if c.Profiles {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(ServiceHeader, c.Service)
		mux.ServeHTTP(w, r)
	})
}

// Address returns the address on which the server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Taken returns the configured address if another program has its port, "" if the server listens there.
func (s *Server) Taken() string { return s.taken }

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = s.http.Shutdown(end)
	})
	defer stop()
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}
