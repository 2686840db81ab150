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
	"sync/atomic"
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
	// Dir is where JetStream stores; it belongs to one server at a time. Without it the
	// server has no JetStream, and stores nothing.
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
	// Cluster is the server's place in a cluster; nil for a server on its own.
	Cluster *Cluster
	// OutlastFullDisk restarts the server after its disk was full, once there is room
	// again. A server keeps the write error otherwise, and stores nothing more.
	OutlastFullDisk bool
	// Logf gets the server's warnings and errors.
	Logf func(format string, args ...any)
}

// Server is an embedded NATS server.
type Server struct {
	c        Config // with the port and the passwords that Start has chosen
	current  atomic.Pointer[server.Server]
	shutdown func() error

	full     chan struct{} // gets a token when the disk was full
	stopping chan struct{} // closed by Shutdown
}

// ErrInUse is returned by Start for a directory that another server uses.
var ErrInUse = errors.New("the directory is in use by another process")

// ErrNotLoopback is returned by Start for a host that is not on the loopback interface, if
// bus.LocalUser is among the roles: other machines could connect without a password.
var ErrNotLoopback = errors.New("not on the loopback interface, and no password would be asked for")

// Start starts a server and waits until it accepts connections.
func Start(c Config) (*Server, error) {
	lock, err := lockDir(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	s := &Server{full: make(chan struct{}, 1), stopping: make(chan struct{})}
	if s.c, err = c.complete(); err == nil {
		err = s.start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("nats: %w", err), lock.Close())
	}
	if at, ok := s.current.Load().Addr().(*net.TCPAddr); ok {
		s.c.Port = at.Port // the same after a restart
	}
	var outlasting sync.WaitGroup
	if c.OutlastFullDisk {
		outlasting.Go(s.outlast)
	}
	s.shutdown = sync.OnceValue(func() error {
		close(s.stopping)
		outlasting.Wait()
		s.end()
		return lock.Close()
	})
	return s, nil
}

// complete returns the configuration with its defaults, and a password for each role.
func (c Config) complete() (Config, error) {
	if c.MaxPayload == 0 {
		c.MaxPayload = MaxPayload
	}
	if c.Host == "" {
		c.Host = "127.0.0.1"
	}
	if !onLoopback(c.Host) && slices.ContainsFunc(c.Roles, func(r bus.Role) bool { return r.Name == bus.LocalUser }) {
		return c, fmt.Errorf("cannot listen on %s: %w", c.Host, ErrNotLoopback)
	}
	passwords := map[string]string{}
	for _, r := range c.Roles {
		password := c.Passwords[r.Name]
		if password == "" {
			var err error
			if password, err = NewPassword(); err != nil {
				return c, err
			}
		}
		passwords[r.Name] = password
	}
	c.Passwords = passwords
	return c, nil
}

// start starts the server, and returns when it accepts connections.
func (s *Server) start() error {
	c := &s.c
	if c.Port > 0 {
		// The server itself would only log that the port is taken.
		l, err := net.Listen("tcp", net.JoinHostPort(c.Host, strconv.Itoa(c.Port)))
		if err != nil {
			return fmt.Errorf("cannot listen on %s:%d: %w; choose another port, or end what listens there", c.Host, c.Port, err)
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	if c.Dir != "" && c.Cluster == nil { // a server of a cluster copies a stream that it leaves out
		addSums(c.Dir, s.say)
	}
	opts := &server.Options{
		ServerName:             "coppice",
		Host:                   c.Host,
		Port:                   c.Port,
		DontListen:             c.Port == 0,
		NoSigs:                 true,
		JetStream:              c.Dir != "",
		StoreDir:               c.Dir,
		JetStreamMaxStore:      MaxStore,
		SyncAlways:             true, // acknowledged means on disk
		MaxPayload:             c.MaxPayload,
		MaxPending:             256 << 20,
		DisableJetStreamBanner: true,
		AuthTimeout:            authTimeout(c.Host),
	}
	c.Cluster.configure(opts)
	if len(c.Roles) > 0 {
		if err := c.configure(opts); err != nil {
			return err
		}
	}
	nats, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	nats.SetLoggerV2(&logger{c.Logf, s.full}, false, false, false)
	nats.Start()
	if !nats.ReadyForConnections(time.Minute) {
		nats.Shutdown()
		nats.WaitForShutdown()
		return errors.New("the server was not ready within a minute; its log says why")
	}
	s.current.Store(nats)
	return nil
}

// MaxStore is how many bytes JetStream may store: as many as the disk takes. By default
// it would be three quarters of what is free when the server starts.
const MaxStore = 1 << 60

// end ends the server that runs, and waits until it has.
func (s *Server) end() {
	s.current.Load().Shutdown()
	s.current.Load().WaitForShutdown()
}

// configure adds the accounts and users of the roles.
func (c *Config) configure(opts *server.Options) error {
	var conf strings.Builder
	quoted := func(role string) string { return strconv.Quote(c.Passwords[role]) }
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

// authTimeout returns the time in seconds, from the accepted connection on, after which a client that has
// not authenticated is disconnected. This machine may be slow; from others, idle connections must not pile up.
func authTimeout(host string) float64 {
	if onLoopback(host) {
		return 60
	}
	return 10
}

func onLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// NewPassword draws a password of 128 bits.
func NewPassword() (string, error) {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	return hex.EncodeToString(b[:]), nil
}

// lockDir creates the directory, and makes sure that one server at a time uses it. JetStream
// itself does not.
func lockDir(dir string) (io.Closer, error) {
	if dir == "" {
		return io.NopCloser(nil), nil
	}
	if err := datadir.Own(dir); err != nil {
		return nil, err
	}
	lock, err := datadir.FS().Lock(filepath.Join(dir, "LOCK"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w (%w)", dir, ErrInUse, err)
	}
	return lock, nil
}

// URL is where the server listens.
func (s *Server) URL() string { return s.current.Load().ClientURL() }

// InProcessConn implements nats.InProcessConnProvider: it connects to the server that
// runs now, also after a restart.
func (s *Server) InProcessConn() (net.Conn, error) { return s.current.Load().InProcessConn() }

// Options are how this process connects with a role: not over the network.
func (s *Server) Options(role string) []nats.Option {
	opts := []nats.Option{nats.InProcessServer(s)}
	if password, ok := s.c.Passwords[role]; ok {
		opts = append(opts, nats.UserInfo(role, password), nats.CustomInboxPrefix(bus.InboxPrefix(role)))
	}
	return opts
}

// Password is the password of a role, for another process.
func (s *Server) Password(role string) string { return s.c.Passwords[role] }

// Shutdown ends the server and waits until it has. It may be called again.
func (s *Server) Shutdown() error { return s.shutdown() }
