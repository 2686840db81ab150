package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/oklog/run"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
	assets "github.com/coppice-gc/coppice/console"
	"github.com/coppice-gc/coppice/internal/admin"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/dial"
	"github.com/coppice-gc/coppice/services/allinone"
)

// idleTime is the default time after which a session of the console ends.
const idleTime = 30 * time.Minute

func consoleCommand(a *cli.App) *cobra.Command {
	var http httpFlag
	var listen, public, cert, key string
	var services, realms []string
	var idle time.Duration
	var profiles bool
	c := &cobra.Command{
		Use:     "console",
		GroupID: "services",
		Short:   "Serve the console: what is stuck and why, in a browser",
		Long: `Serve the console, in which people see in a browser what is stuck and why, what an
object depends on and what happened to it.

People sign in with the name and the password of a NATS user, or with a credentials
file, and can do what NATS and the users file let this user do. The console has no
permissions of its own: it reads /readyz and /metrics of the services that --service-url
names. It stores nothing: a restart ends all sessions. With several instances, a proxy
must send all requests of a session to the same one.

Browsers of other machines need https: give the console a certificate with --https-cert
and --https-key, which are read again when they change, or have a proxy encrypt. --url
is the address under which browsers reach it; requests to other names are refused.`,
		Example: `  coppice console
  coppice console --listen :8443 --https-cert tls.crt --https-key tls.key --url https://coppice.example.com:8443
  coppice console --listen :9450 --url https://coppice.example.com --service-url http://graph:9440`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := positive(duration{"--idle", idle}); err != nil {
				return cli.NewUsageError(c, err)
			}
			conf := console.Config{
				Address: listen, AnyPort: !c.Flags().Changed("listen"), Realms: realms, Idle: idle, Assets: assets.Dist(), Version: version(),
				Log: a.Logger().With("service", "console"), Now: a.Clock,
			}
			var err error
			if conf.URL, err = publicURL(public); err == nil {
				conf.TLS, err = certificates(cert, key)
			}
			if err != nil {
				return cli.NewUsageError(c, err)
			}
			var asked []*url.URL
			for _, text := range services {
				u, err := serviceURL(text)
				if err != nil {
					return cli.NewUsageError(c, fmt.Errorf("--service-url %s: %w", text, err))
				}
				asked = append(asked, u)
			}
			conf.Services = func() []*url.URL { return asked }
			if strings.Contains(a.Dial.Server, "@") {
				return cli.NewUsageError(c, errors.New("--server names a user: the console connects with the users who sign in; name the address alone"))
			}
			conf.Connect = signIn(&a.Dial)
			return runConsole(c.Context(), conf, http, profiles)
		},
	}
	connection := pflag.NewFlagSet("connection", pflag.ContinueOnError)
	a.Dial.Flags(connection)
	for _, name := range []string{"server", "tlscert", "tlskey", "tlsca", "timeout"} { // the users have the rest
		c.Flags().AddFlag(connection.Lookup(name))
	}
	c.Flags().StringVar(&listen, "listen", console.LoopbackAddress(), "`ADDRESS` of the console: :PORT for all interfaces. If another program has the default port, any free one is used")
	c.Flags().StringVar(&public, "url", "", "address under which browsers reach the console, such as https://coppice.example.com; requests to other names are refused")
	c.Flags().StringVar(&cert, "https-cert", "", "file of the certificate of the console")
	c.Flags().StringVar(&key, "https-key", "", "file of the key to --https-cert")
	c.Flags().StringArrayVar(&services, "service-url", nil, "`URL` of the HTTP server of a service whose health the console shows; may be repeated")
	c.Flags().StringArrayVar(&realms, "realm", []string{bus.DefaultRealm}, "realm that is offered to users who may not list realms; may be repeated")
	c.Flags().DurationVar(&idle, "idle", idleTime, "time without a request after which a session ends")
	http.add(c, consoleHealthPort)
	a.LogFlags(c, slog.LevelInfo)
	c.Flags().BoolVar(&profiles, "pprof", false, "serve profiles under /debug/pprof/")
	return c
}

// runConsole serves the console, its health and its metrics until ctx ends.
func runConsole(ctx context.Context, conf console.Config, http httpFlag, profiles bool) error {
	registry := admin.NewRegistry()
	admin.RegisterBuild(registry, version())
	conf.Registry = registry
	s, err := console.Listen(conf)
	if err != nil {
		return err
	}
	var g run.Group
	addConsole(ctx, &g, s)
	server, err := http.listen(registry, func() error { return nil }, nil, profiles)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	if server != nil {
		serving, stop := context.WithCancel(ctx)
		g.Add(func() error { return server.Run(serving) }, func(error) { stop() })
		conf.Log.Info("health and metrics", "url", "http://"+server.Address()+"/metrics")
	}
	attributes := []any{"url", s.URL()}
	if taken := s.Taken(); taken != "" {
		attributes = append(attributes, "in use", taken)
	}
	conf.Log.Info("console", attributes...)
	return g.Run()
}

func addConsole(ctx context.Context, g *run.Group, s *console.Server) {
	serving, stop := context.WithCancel(ctx)
	g.Add(func() error { return s.Run(serving) }, func(error) { stop() })
}

// publicURL parses the address under which browsers reach the console, nil for "".
func publicURL(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("--url %s: write an address without a path, such as https://coppice.example.com", text)
	}
	u.Path = ""
	return u, nil
}

// certificates returns the configuration of HTTPS, nil without a certificate. The files are read again when they change.
func certificates(cert, key string) (*tls.Config, error) {
	if cert == "" && key == "" {
		return nil, nil
	}
	if cert == "" || key == "" {
		return nil, errors.New("give both --https-cert and --https-key, or neither")
	}
	files := &certificateFiles{cert: cert, key: key}
	if _, err := files.read(nil); err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: files.read}, nil
}

// certificateFiles are the files of a certificate, which another program renews.
type certificateFiles struct {
	cert, key string

	mu      sync.Mutex
	changed [2]time.Time
	last    *tls.Certificate
}

// read returns the certificate. If it cannot be read, it is the last one.
func (f *certificateFiles) read(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var changed [2]time.Time
	for i, name := range []string{f.cert, f.key} {
		info, err := os.Stat(name)
		if err != nil {
			return f.last, f.unless(err)
		}
		changed[i] = info.ModTime()
	}
	if f.last != nil && changed == f.changed {
		return f.last, nil
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return f.last, f.unless(fmt.Errorf("the certificate of the console: %w", err))
	}
	f.last, f.changed = &pair, changed
	return f.last, nil
}

// unless returns an error unless there is a certificate.
func (f *certificateFiles) unless(err error) error {
	if f.last != nil {
		return nil
	}
	return err
}

// signIn returns a function that connects users to the server of a configuration, with their own credentials.
func signIn(base *dial.Config) func(context.Context, console.Login, ...nats.Option) (*nats.Conn, string, error) {
	return func(ctx context.Context, l console.Login, opts ...nats.Option) (*nats.Conn, string, error) {
		c := *base
		c.Server = cmp.Or(c.Server, dial.DefaultURL)
		c.User, c.Password, c.PasswordFile, c.Creds, c.NKey, c.Context, c.InboxPrefix = l.User, l.Password, "", "", "", "", ""
		c.Actor = l.User
		if l.Credentials != "" {
			token, err := jwt.ParseDecoratedJWT([]byte(l.Credentials))
			if err != nil {
				return nil, "", console.ErrCredentials
			}
			claims, err := jwt.DecodeUserClaims(token)
			if err != nil {
				return nil, "", console.ErrCredentials
			}
			pair, err := nkeys.ParseDecoratedUserNKey([]byte(l.Credentials))
			if err != nil {
				return nil, "", console.ErrCredentials
			}
			c.Actor = claims.Name
			opts = append(opts, nats.UserJWT(func() (string, error) { return token, nil }, pair.Sign))
		}
		if err := bus.CheckActor(c.Actor); err != nil {
			return nil, "", err
		}
		nc, err := c.Client(ctx, "coppice-console", opts...)
		if err == nil && !nc.AuthRequired() {
			if err = checksPasswords(ctx, c); err != nil {
				nc.Close()
			}
		}
		return nc, c.Actor, err
	}
}

// checksPasswords returns an error if a NATS server accepts any user. A server that says that it needs no credentials may
// have users all the same, and one for clients that name none.
func checksPasswords(ctx context.Context, c dial.Config) error {
	c.User, c.Password = "coppice-console-"+rand.Text(), rand.Text()
	nc, err := c.Client(ctx, "coppice-console")
	if errors.Is(err, nats.ErrAuthorization) {
		return nil
	}
	if err == nil {
		nc.Close()
		err = console.ErrOpen
	}
	return err
}

// consoleFlag is the flag of `coppice up` with the address of the console.
type consoleFlag struct {
	address string
	command *cobra.Command
}

func (f *consoleFlag) add(c *cobra.Command) {
	f.command = c
	c.Flags().StringVar(&f.address, "console", console.LoopbackAddress(), "loopback `ADDRESS` of the console; "+noHTTP+" for none. If another program has the default port, any free one is used")
}

// run adds the console of a `coppice up` to its group, and prints its address. health is the HTTP server of the process,
// nil for none.
func (f *consoleFlag) run(ctx context.Context, g *run.Group, a *cli.App, up upFlags, stack *allinone.Stack, registry *prometheus.Registry, health *admin.Server) error {
	if f.address == "" || f.address == noHTTP {
		return nil
	}
	base := a.Dial
	base.Server, base.Timeout = stack.Server().URL(), cmp.Or(base.Timeout, 5*time.Second)
	connect := signIn(&base)
	if !up.auth {
		connect = func(ctx context.Context, _ console.Login, opts ...nats.Option) (*nats.Conn, string, error) {
			actor := cli.LocalActor()
			local := dial.Config{Server: base.Server, Timeout: base.Timeout, Actor: actor}
			nc, err := local.Client(ctx, "coppice-console", opts...)
			return nc, actor, err
		}
	}
	conf := console.Config{
		Address: f.address, AnyPort: !f.command.Flags().Changed("console"), Local: !up.auth, Realms: up.realms, Idle: idleTime, Connect: connect,
		Assets: assets.Dist(), Version: version(), Log: a.QuietLogger().With("service", "console"), Registry: registry, Now: a.Clock,
		Services: func() []*url.URL {
			if health == nil {
				return nil
			}
			return []*url.URL{{Scheme: "http", Host: health.Address()}}
		},
	}
	s, err := console.Listen(conf)
	if errors.Is(err, console.ErrNotSecure) {
		return fmt.Errorf("--console %s is not on the loopback interface; run 'coppice console' with a certificate for other machines", f.address)
	}
	if err != nil {
		return err
	}
	at := s.URL()
	if conf.Local {
		at = s.LocalURL()
	}
	if taken := s.Taken(); taken != "" {
		at += " (" + taken + " is in use)"
	}
	if a.Log.JSON() && conf.Local { // the log has no secrets
		_, _ = fmt.Fprintln(a.Stdout, "console: "+at)
	} else {
		a.Say("console: " + at)
	}
	addConsole(ctx, g, s)
	return nil
}
