// Package natsd runs an embedded NATS server: JetStream in a directory, every
// append synced to disk before it is acknowledged, and a user per role.
package natsd

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsconf"
	"github.com/coppice-gc/coppice/internal/datadir"
)

// MaxPayload is the largest message of the embedded server, in bytes.
const MaxPayload = 8 << 20

// Config is how to start a Server.
type Config struct {
	// Dir is where JetStream stores; it belongs to one server at a time.
	Dir string
	// Host and Port are where to listen; without a port, nowhere: only
	// connections of this process. Port -1 draws a free one.
	Host string
	Port int
	// Roles get a user each. Connections without a user get the role
	// bus.LocalUser, if it is among them, and none otherwise: with it the
	// server listens on the loopback interface only.
	Roles []bus.Role
	// Accounts gives each actor an account of its own, as deployments do, so that
	// answers reach inboxes only. Without it all roles are in the core account.
	Accounts bool
	// Passwords are those of users by their names; others are drawn.
	Passwords map[string]string
	// MaxPayload is MaxPayload by default.
	MaxPayload int32
	// Logf gets the server's warnings and errors.
	Logf func(format string, args ...any)
}

// Server is an embedded NATS server.
type Server struct {
	s         *server.Server
	lock      io.Closer
	passwords map[string]string
	shutdown  func() error
}

// ErrInUse is returned by Start for a directory that another server uses.
var ErrInUse = errors.New("the directory is in use by another process")

// ErrNotLoopback is returned by Start for a host from which anybody could
// connect without a password.
var ErrNotLoopback = errors.New("not on the loopback interface, and no password would be asked for")

// Start starts a server and waits until it accepts connections.
func Start(c Config) (*Server, error) {
	if err := datadir.Own(c.Dir); err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	lock, err := lockDir(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("nats: %s: %w", c.Dir, err)
	}
	s, err := start(c)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("nats: %w", err), lock.Close())
	}
	s.lock = lock
	s.shutdown = sync.OnceValue(func() error {
		s.s.Shutdown()
		s.s.WaitForShutdown()
		return s.lock.Close()
	})
	return s, nil
}

func start(c Config) (*Server, error) {
	if c.MaxPayload == 0 {
		c.MaxPayload = MaxPayload
	}
	if c.Host == "" {
		c.Host = "127.0.0.1"
	}
	if !onLoopback(c.Host) && slices.ContainsFunc(c.Roles, func(r bus.Role) bool { return r.Name == bus.LocalUser }) {
		return nil, fmt.Errorf("cannot listen on %s: %w", c.Host, ErrNotLoopback)
	}
	if c.Port > 0 {
		// The server itself would only log that the port is taken.
		l, err := net.Listen("tcp", net.JoinHostPort(c.Host, strconv.Itoa(c.Port)))
		if err != nil {
			return nil, fmt.Errorf("cannot listen on %s:%d: %w; choose another port, or end what listens there", c.Host, c.Port, err)
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
	opts := &server.Options{
		ServerName:             "coppice",
		Host:                   c.Host,
		Port:                   c.Port,
		DontListen:             c.Port == 0,
		NoSigs:                 true,
		JetStream:              true,
		StoreDir:               c.Dir,
		SyncAlways:             true, // acknowledged means on disk
		MaxPayload:             c.MaxPayload,
		MaxPending:             256 << 20,
		DisableJetStreamBanner: true,
	}
	out := &Server{passwords: map[string]string{}}
	if len(c.Roles) > 0 {
		if err := out.configure(c, opts); err != nil {
			return nil, err
		}
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return nil, err
	}
	s.SetLoggerV2(&logger{c.Logf}, false, false, false)
	s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		s.Shutdown()
		return nil, errors.New("the server was not ready within 20 s; its log says why")
	}
	out.s = s
	return out, nil
}

// configure adds the accounts and users of the roles.
func (s *Server) configure(c Config, opts *server.Options) error {
	if err := s.users(c); err != nil {
		return err
	}
	var conf strings.Builder
	quoted := func(role string) string { return strconv.Quote(s.passwords[role]) }
	write := natsconf.OneAccount
	if c.Accounts {
		write = natsconf.Accounts
	}
	if err := write(&conf, c.Roles, quoted); err != nil {
		return err
	}
	if slices.ContainsFunc(c.Roles, func(r bus.Role) bool { return r.Name == bus.LocalUser }) {
		fmt.Fprintf(&conf, "no_auth_user: %s\n", bus.LocalUser)
	}
	return opts.ProcessConfigString(conf.String())
}

func onLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// users notes the password of each role.
func (s *Server) users(c Config) error {
	for _, r := range c.Roles {
		password := c.Passwords[r.Name]
		if password == "" {
			var err error
			if password, err = NewPassword(); err != nil {
				return err
			}
		}
		s.passwords[r.Name] = password
	}
	return nil
}

// NewPassword draws a password of 128 bits.
func NewPassword() (string, error) {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	return hex.EncodeToString(b[:]), nil
}

// lockDir makes sure that one server at a time uses the directory. JetStream
// itself does not.
func lockDir(dir string) (io.Closer, error) {
	lock, err := datadir.FS().Lock(filepath.Join(dir, "LOCK"))
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrInUse, err)
	}
	return lock, nil
}

// URL is where the server listens.
func (s *Server) URL() string { return s.s.ClientURL() }

// Options are how this process connects with a role: not over the network.
func (s *Server) Options(role string) []nats.Option {
	opts := []nats.Option{nats.InProcessServer(s.s)}
	if password, ok := s.passwords[role]; ok {
		opts = append(opts, nats.UserInfo(role, password), nats.CustomInboxPrefix(bus.InboxPrefix(role)))
	}
	return opts
}

// Password is the password of a role, for another process.
func (s *Server) Password(role string) string { return s.passwords[role] }

// Shutdown ends the server and waits until it has. It may be called again.
func (s *Server) Shutdown() error { return s.shutdown() }

// logger passes on what a person should know.
type logger struct {
	logf func(format string, args ...any)
}

func (l *logger) say(format string, args ...any) {
	// The passwords are drawn at the start and never leave memory.
	if l.logf == nil || strings.HasPrefix(format, "Plaintext passwords detected") {
		return
	}
	l.logf(format, args...)
}

func (l *logger) Noticef(string, ...any)            {}
func (l *logger) Debugf(string, ...any)             {}
func (l *logger) Tracef(string, ...any)             {}
func (l *logger) Warnf(format string, args ...any)  { l.say(format, args...) }
func (l *logger) Errorf(format string, args ...any) { l.say(format, args...) }
func (l *logger) Fatalf(format string, args ...any) { l.say(format, args...) }
