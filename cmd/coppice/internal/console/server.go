package console

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
)

// Config says what a Server serves, where, and to whom.
type Config struct {
	// Address is HOST:PORT. AnyPort lets a free port of the same host replace a port that is in use.
	Address string
	AnyPort bool
	// TLS is nil for HTTP, which a server that other machines reach needs a proxy for: URL is then that of the proxy.
	TLS *tls.Config
	// URL is the address under which browsers reach the server; nil: Address itself.
	URL *url.URL
	// Connect connects to NATS with the credentials of a user, and returns its actor. The connection is made again after it
	// was lost, until NATS refuses the user.
	Connect func(ctx context.Context, l Login, opts ...nats.Option) (nc *nats.Conn, actor string, err error)
	// Local serves the local user of a `coppice up` without passwords, to browsers that know the token of LocalURL, and
	// no other user.
	Local bool
	// Realms are offered to users who may not list realms, if they may read them.
	Realms []string
	// Services returns the URLs of the HTTP servers of services whose health the overview shows.
	Services func() []*url.URL
	// Idle is the time after which a session ends in which no request was made.
	Idle time.Duration
	// Assets are the files of the pages: index.html, and what it names.
	Assets  fs.FS
	Version string
	Log     *slog.Logger
	// Registry receives the metrics of the server; nil for none.
	Registry prometheus.Registerer
	// Now is the clock of what pages show.
	Now func() time.Time
}

// Server is the console of an installation.
type Server struct {
	c        Config
	listener net.Listener
	taken    string
	http     http.Server
	token    string // of the local user
	ctx      context.Context
	cancel   context.CancelFunc
	sessions *sessions
	users    *users
	health   *health
	searches chan struct{} // a place for each request that searches the log
	planning chan struct{} // the same for requests that plan a deletion
	graphs   chan struct{} // the same for graphs
	drawers  drawers
	finding  chan struct{} // a place for each request that looks for the next object in a state
	signIns  *signInLimits
	metrics  *metrics
}

// The limits of requests.
const (
	maxHeader    = 64 << 10
	headerTime   = 5 * time.Second
	bodyTime     = 30 * time.Second
	replyTime    = time.Minute // not of WebSockets
	unusedTime   = 2 * time.Minute
	shutdownTime = time.Second
)

// ErrNotSecure is returned by Listen if passwords would cross a network unencrypted.
var ErrNotSecure = errors.New("browsers of other machines would send passwords unencrypted: give the console a certificate with --https-cert and --https-key, or name with --url the https address of the proxy that encrypts for it")

// ErrNoURL is returned by Listen for an address that other machines reach, without a URL.
var ErrNoURL = errors.New("name with --url the address under which browsers reach it, such as https://coppice.example.com:8443: requests to other names are refused, because they may come from pages of other servers")

// loopback reports whether a host is this machine.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Listen listens at the address. Nothing is served until Run is called.
func Listen(c Config) (*Server, error) {
	host, port, err := net.SplitHostPort(c.Address)
	if err == nil && port == "" {
		err = errors.New("missing port in address")
	}
	if err != nil {
		return nil, fmt.Errorf("%q is not an address such as 127.0.0.1:%d or :8443: %w", c.Address, DefaultPort, err)
	}
	switch far := !loopback(host); {
	case far && c.TLS == nil && (c.URL == nil || c.URL.Scheme != "https"):
		return nil, fmt.Errorf("the console cannot serve %s: %w", c.Address, ErrNotSecure)
	case c.URL != nil && c.URL.Scheme != "https" && !loopback(c.URL.Hostname()):
		return nil, fmt.Errorf("the console cannot be served as %s: %w", c.URL, ErrNotSecure)
	case far && c.URL == nil:
		return nil, fmt.Errorf("the console cannot serve %s: %w", c.Address, ErrNoURL)
	}
	s := &Server{c: c, token: secret(), signIns: newSignInLimits(), metrics: newMetrics()}
	s.listener, err = net.Listen("tcp", c.Address)
	if c.AnyPort && port != "0" && errors.Is(err, syscall.EADDRINUSE) {
		s.taken = c.Address
		s.listener, err = net.Listen("tcp", net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return nil, fmt.Errorf("the console cannot serve %s: %w; choose another address", c.Address, err)
	}
	if c.TLS != nil {
		s.listener = tls.NewListener(s.listener, c.TLS)
	}
	own := originsOf(s.listener.Addr(), c.URL, c.TLS != nil)
	_, port, _ = net.SplitHostPort(s.listener.Addr().String())
	if c.URL != nil {
		port = c.URL.Port()
	}
	s.sessions = newSessions(c.Idle, port, own.secure)
	s.users = newUsers(s)
	s.searches, s.planning = make(chan struct{}, maxSearches), make(chan struct{}, plansAtOnce)
	s.graphs, s.drawers = make(chan struct{}, maxGraphs), newDrawers()
	s.finding = make(chan struct{}, drawnAtOnce)
	s.health = newHealth(c.Services)
	pages, err := newPages(c.Assets)
	if err != nil {
		return nil, errors.Join(err, s.listener.Close())
	}
	mux := http.NewServeMux()
	s.routes(mux)
	mux.Handle("/", pages)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.http = http.Server{
		Handler: own.guard(mux), ReadHeaderTimeout: headerTime, ReadTimeout: bodyTime, WriteTimeout: replyTime, IdleTimeout: unusedTime, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
	if c.Registry != nil {
		s.metrics.register(c.Registry, s)
	}
	return s, nil
}

// DefaultPort is the port of the console.
const DefaultPort = 9450

// Address returns the address on which the server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Taken returns the configured address if another program has its port, "" if the server listens there.
func (s *Server) Taken() string { return s.taken }

// URL returns the address of the console.
func (s *Server) URL() string {
	if s.c.URL != nil {
		return s.c.URL.String()
	}
	scheme := "http"
	if s.c.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + s.Address()
}

// LocalURL returns the address with which the local user signs in. The token is in the fragment, which browsers do not
// send: the page sends it in a request of its own, and removes it from the address.
func (s *Server) LocalURL() string { return strings.TrimSuffix(s.URL(), "/") + "/#token=" + s.token }

// Run serves until ctx ends, and then ends all sessions.
func (s *Server) Run(ctx context.Context) error {
	defer s.cancel()
	stop := context.AfterFunc(ctx, func() {
		s.sessions.close()
		s.cancel()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
		defer cancel()
		if s.http.Shutdown(end) != nil {
			_ = s.http.Close()
		}
	})
	defer stop()
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("console: %w", err)
	}
	return nil
}

// Close releases the address of a server that does not run.
func (s *Server) Close() error {
	s.cancel()
	return s.listener.Close()
}

// LoopbackAddress returns the default address.
func LoopbackAddress() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(DefaultPort)) }
