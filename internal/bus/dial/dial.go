// Package dial makes connections to NATS as the nats command does: by the same
// flags, environment and contexts.
package dial

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/jsm.go/natscontext"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/spf13/pflag"

	"github.com/coppice-gc/coppice/internal/bus"
)

// Config has the address of NATS and the credentials of the user. The names of flags, of
// environment variables and of the members of contexts are those of the nats
// command.
type Config struct {
	Server   string
	User     string
	Password string
	// PasswordFile is a file with the password.
	PasswordFile string
	Creds        string
	NKey         string
	TLSCert      string
	TLSKey       string
	TLSCA        string
	Context      string
	// Timeout is how long a client waits for a server, and for a reply.
	Timeout time.Duration
	// InboxPrefix is where replies come to: by default the user's private inbox.
	InboxPrefix string
	// Actor is the actor of requests: without a user, replies come to its inbox,
	// as the graph service requires.
	Actor string

	// Waits, if it is not nil, is called with the reason while Service waits for a server.
	Waits func(error)

	sets []*pflag.FlagSet
}

// A server that does not answer pings for 3 intervals is lost: 24 s, since the operating system may report a half-open
// connection after many minutes.
const (
	pingInterval = 8 * time.Second
	maxPings     = 2
)

// watched are the options of a connection that notices within 30 s that it is half open.
func watched(opts []nats.Option) []nats.Option {
	return append([]nats.Option{nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(maxPings)}, opts...)
}

// DefaultURL is the address of NATS if neither a flag nor the environment has one.
const DefaultURL = "nats://127.0.0.1:4222"

// Flags adds the flags of a connection, with the environment as defaults.
func (c *Config) Flags(f *pflag.FlagSet) {
	c.sets = append(c.sets, f)
	f.StringVarP(&c.Server, "server", "s", os.Getenv("NATS_URL"), "NATS server URLs ($NATS_URL)")
	f.StringVar(&c.User, "user", os.Getenv("NATS_USER"), "user name, or token ($NATS_USER)")
	f.StringVar(&c.Password, "password", "", "password ($NATS_PASSWORD)")
	f.StringVar(&c.PasswordFile, "password-file", os.Getenv("NATS_PASSWORD_FILE"), "file with the password ($NATS_PASSWORD_FILE)")
	f.StringVar(&c.Creds, "creds", os.Getenv("NATS_CREDS"), "file of user credentials ($NATS_CREDS)")
	f.StringVar(&c.NKey, "nkey", os.Getenv("NATS_NKEY"), "file of a user's nkey ($NATS_NKEY)")
	f.StringVar(&c.TLSCert, "tlscert", os.Getenv("NATS_CERT"), "file of a TLS certificate ($NATS_CERT)")
	f.StringVar(&c.TLSKey, "tlskey", os.Getenv("NATS_KEY"), "file of the key to --tlscert ($NATS_KEY)")
	f.StringVar(&c.TLSCA, "tlsca", os.Getenv("NATS_CA"), "file of the certificate authority ($NATS_CA)")
	f.StringVar(&c.Context, "context", os.Getenv("NATS_CONTEXT"), "context of the nats command ($NATS_CONTEXT)")
	f.DurationVar(&c.Timeout, "timeout", 5*time.Second, "how long to wait for a reply ($NATS_TIMEOUT)")
	f.StringVar(&c.InboxPrefix, "inbox-prefix", "", "prefix of the inbox for replies (default: _INBOX.<user>)")
}

// Given reports whether one of the flags was given on the command line.
func (c *Config) Given(names ...string) bool { return c.changed(names...) }

// changed reports whether one of the flags was given on the command line.
func (c *Config) changed(names ...string) bool {
	for _, f := range c.sets {
		for _, n := range names {
			if flag := f.Lookup(n); flag != nil && flag.Changed {
				return true
			}
		}
	}
	return false
}

// Complete adds from the environment what flags do not set. Credentials in flags replace
// all credentials of the environment, and a context in flags replaces its URL.
func (c *Config) Complete() error {
	password := os.Getenv("NATS_PASSWORD")
	if c.changed("user", "creds", "nkey", "context") {
		for _, f := range []struct {
			name  string
			value *string
		}{{"user", &c.User}, {"creds", &c.Creds}, {"nkey", &c.NKey}} {
			if !c.changed(f.name) {
				*f.value = ""
			}
		}
		if !c.changed("user") {
			password = ""
			if !c.changed("password-file") {
				c.PasswordFile = ""
			}
		}
		if c.changed("context") && !c.changed("server") {
			c.Server = ""
		}
	}
	if err := c.completePassword(password); err != nil {
		return err
	}
	if t := os.Getenv("NATS_TIMEOUT"); t != "" && !c.changed("timeout") {
		d, err := time.ParseDuration(t)
		if err != nil {
			return fmt.Errorf("NATS_TIMEOUT: %w", err)
		}
		c.Timeout = d
	}
	return nil
}

// completePassword chooses the password: that of a flag, or else of the environment.
func (c *Config) completePassword(environment string) error {
	switch {
	case c.changed("password") && c.changed("password-file"):
		return errors.New("--password and --password-file are both given: choose one")
	case c.changed("password-file"):
	case c.Password != "":
		return nil
	case environment != "" && c.PasswordFile != "":
		return errors.New("$NATS_PASSWORD and $NATS_PASSWORD_FILE are both set: choose one")
	case c.PasswordFile == "":
		c.Password = environment
		return nil
	}
	var err error
	c.Password, err = ReadPassword(c.PasswordFile)
	return err
}

// ReadPassword returns the password in a file, without the end of its line.
func ReadPassword(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("password: %w", err)
	}
	password := strings.TrimRight(string(data), "\r\n")
	if password == "" {
		return "", fmt.Errorf("password: %s is empty", file)
	}
	return password, nil
}

// UserName is the name of the user, if the client knows it: that of the
// flags, of the environment, of the context, or of the credentials; empty for an
// nkey, of which only the server knows whose it is.
func (c *Config) UserName() (string, error) {
	creds := c.Creds
	switch {
	case creds != "":
	case c.User != "" && c.Password != "":
		return c.User, nil
	case c.fromContext():
		nc, err := natscontext.New(c.Context, true)
		if err != nil {
			return "", fmt.Errorf("nats context %q: %w", c.Context, err)
		}
		if nc.User() != "" {
			return nc.User(), nil
		}
		creds = nc.Creds()
	}
	if creds == "" {
		return "", nil
	}
	data, err := os.ReadFile(creds)
	if err != nil {
		return "", fmt.Errorf("credentials: %w", err)
	}
	token, err := jwt.ParseDecoratedJWT(data)
	if err != nil {
		return "", fmt.Errorf("credentials %s: %w", creds, err)
	}
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return "", fmt.Errorf("credentials %s: %w", creds, err)
	}
	return claims.Name, nil
}

// fromContext reports whether a context has the address of the server or credentials.
func (c *Config) fromContext() bool {
	return c.Context != "" || c.Server == "" && c.Creds == "" && c.NKey == "" && c.User == "" && natscontext.SelectedContext() != ""
}

// options are the server's URL and the options of a connection. A context
// stands behind flags and environment.
func (c *Config) options() (url string, opts []nats.Option, err error) {
	url = c.Server
	user, prefix := c.User, c.InboxPrefix
	if c.fromContext() {
		nc, err := natscontext.New(c.Context, true)
		if err != nil {
			return "", nil, fmt.Errorf("nats context %q: %w", c.Context, err)
		}
		opts, err = nc.NATSOptions()
		if err != nil {
			return "", nil, fmt.Errorf("nats context %q: %w", c.Context, err)
		}
		if url == "" {
			url = nc.ServerURL()
		}
		if user == "" {
			user = nc.User()
		}
		if prefix == "" {
			prefix = nc.InboxPrefix()
		}
	}
	if url == "" {
		url = DefaultURL
	}
	if c.Creds != "" {
		opts = append(opts, nats.UserCredentials(c.Creds))
	}
	if c.NKey != "" {
		o, err := nats.NkeyOptionFromSeed(c.NKey)
		if err != nil {
			return "", nil, fmt.Errorf("nkey %s: %w", c.NKey, err)
		}
		opts = append(opts, o)
	}
	if c.User != "" {
		if c.Password != "" {
			opts = append(opts, nats.UserInfo(c.User, c.Password))
		} else {
			opts = append(opts, nats.Token(c.User))
		}
	}
	if c.TLSCert != "" || c.TLSKey != "" {
		opts = append(opts, nats.ClientCert(c.TLSCert, c.TLSKey))
	}
	if c.TLSCA != "" {
		opts = append(opts, nats.RootCAs(c.TLSCA))
	}
	if prefix == "" || prefix == "_INBOX" {
		prefix = ""
		if user != "" && c.Password != "" || user != "" && c.User == "" {
			prefix = bus.InboxPrefix(user)
		} else if c.Actor != "" {
			prefix = bus.InboxPrefix(c.Actor)
		}
	}
	if prefix != "" {
		opts = append(opts, nats.CustomInboxPrefix(prefix))
	}
	return url, opts, nil
}

// Client connects as a command does: it fails if no server can be reached, or if ctx ends before. A
// connection that is lost later is made again. more are options of the connection that the configuration does not have.
func (c *Config) Client(ctx context.Context, name string, more ...nats.Option) (*nats.Conn, error) {
	url, opts, err := c.options()
	if err != nil {
		return nil, err
	}
	opts = slices.Concat([]nats.Option{nats.Name(name), nats.Timeout(c.Timeout), nats.MaxReconnects(-1)}, opts, more)
	nc, err := until(ctx, url, opts)
	if err != nil && ctx.Err() == nil {
		err = explain(url, opts, err)
	}
	return nc, err
}

// until connects, and returns the error of ctx as soon as it ends. nats.Connect knows no context: it
// waits for a server that accepts a connection and sends nothing.
func until(ctx context.Context, url string, opts []nats.Option) (*nats.Conn, error) {
	type outcome struct {
		nc  *nats.Conn
		err error
	}
	ready := make(chan outcome)
	go func() {
		nc, err := nats.Connect(url, watched(opts)...)
		select {
		case ready <- outcome{nc, err}:
		case <-ctx.Done():
			nc.Close()
		}
	}()
	select {
	case o := <-ready:
		return o.nc, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Redacted returns the addresses of servers without users, passwords and tokens.
func Redacted(servers string) string {
	list := strings.Split(servers, ",")
	for i, s := range list {
		if u, err := url.Parse(strings.TrimSpace(s)); err == nil {
			u.User = nil
			list[i] = u.String()
		} else {
			list[i] = s[strings.LastIndex(s, "@")+1:]
		}
	}
	return strings.Join(list, ",")
}

// refused reports whether a server refuses the credentials.
func refused(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || strings.Contains(strings.ToLower(err.Error()), "authorization violation")
}

// explain says what to do about a connection that was not made with some options.
func explain(server string, opts []nats.Option, err error) error {
	server = Redacted(server)
	var invalid *url.Error
	if errors.As(err, &invalid) { // it repeats the address, with its password
		return fmt.Errorf("the address of the NATS server at %s cannot be read: %w", server, invalid.Err)
	}
	switch {
	case refused(err):
		var o nats.Options
		for _, set := range opts {
			_ = set(&o)
		}
		if o.User != "" {
			return fmt.Errorf("the NATS server at %s refuses the password of the user %s: %w", server, o.User, err)
		}
		return fmt.Errorf("the NATS server at %s refuses these credentials: %w; see --user, --creds, --nkey and --context", server, err)
	case errors.Is(err, nats.ErrNoServers), errors.Is(err, nats.ErrTimeout), strings.Contains(err.Error(), "connection refused"):
		return fmt.Errorf("no NATS server answers at %s: %w; start one with `coppice up`, or name yours with --server or --context", server, err)
	}
	return fmt.Errorf("connect to NATS at %s: %w", server, err)
}

// Service connects as a service does: it waits for the server until ctx ends, reconnects for
// ever, and does not buffer messages while it is disconnected. It fails if ctx ends, or if
// waiting does not help: the configuration is invalid, or the server refuses the credentials.
func (c *Config) Service(ctx context.Context, name string, log *slog.Logger) (*nats.Conn, error) {
	url, opts, err := c.options()
	if err != nil {
		return nil, err
	}
	waits := c.Waits
	if waits == nil {
		waits = func(error) {}
	}
	return connect(ctx, url, name, log, waits, opts)
}

// Service is Config.Service for options that are known.
func Service(ctx context.Context, url, name string, log *slog.Logger, opts ...nats.Option) (*nats.Conn, error) {
	return connect(ctx, url, name, log, func(error) {}, opts)
}

func connect(ctx context.Context, server, name string, log *slog.Logger, waits func(error), opts []nats.Option) (*nats.Conn, error) {
	var failure atomic.Pointer[string] // why it cannot reconnect
	retries := func(err error) {
		why := err.Error() // once, however often it is tried
		if was := failure.Swap(&why); was == nil || *was != why {
			log.Warn("cannot reconnect to NATS; trying again", "error", err)
		}
	}
	opts = append([]nats.Option{
		nats.Name(name),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // a server may refuse the user for a while, as after a wrong reload
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("disconnected from NATS", "error", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			failure.Store(new(string))
			log.Info("reconnected to NATS", "server", nc.ConnectedUrlRedacted())
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { retries(err) }),
		nats.ErrorHandler(func(nc *nats.Conn, s *nats.Subscription, err error) {
			if refused(err) {
				retries(fmt.Errorf("the NATS server refuses the user %q: %w", nc.Opts.User, err))
				return
			}
			subject := ""
			if s != nil {
				subject = s.Subject
			}
			log.Error("NATS", "subject", subject, "error", err)
		}),
	}, opts...)
	said := ""
	for {
		nc, err := until(ctx, server, opts)
		if err == nil {
			return nc, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if refused(err) {
			return nil, explain(server, opts, err)
		}
		if errors.As(err, new(*url.Error)) {
			return nil, explain(server, opts, err)
		}
		waits(err)
		if said != err.Error() { // once, however often it is tried
			said = err.Error()
			log.Info("waiting for NATS", "server", Redacted(server), "error", err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(250 * time.Millisecond):
		}
	}
}
