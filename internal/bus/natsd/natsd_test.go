package natsd_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// The server without passwords accepts connections from this machine only.
func TestLoopback(t *testing.T) {
	t.Parallel()
	local := []bus.Role{bus.LocalRole(bus.DefaultRealm)}
	for _, host := range []string{"0.0.0.0", "::", "192.0.2.1", "example.com"} {
		s, err := natsd.Start(natsd.Config{Dir: t.TempDir(), Host: host, Port: -1, Roles: local})
		if err == nil {
			_ = s.Shutdown()
		}
		if !errors.Is(err, natsd.ErrNotLoopback) {
			t.Errorf("%s: %v", host, err)
		}
	}
	for _, host := range []string{"", "127.0.0.1", "127.0.0.2", "localhost"} {
		s := testkit.StartNATS(t, natsd.Config{Dir: t.TempDir(), Host: host, Roles: local})
		nc, err := nats.Connect(s.URL(), nats.Timeout(testkit.Timeout))
		if err != nil {
			t.Errorf("%s: %v", host, err)
			continue
		}
		nc.Close()
	}
}

// Without the local role there is no way in without a password, nor with a
// wrong one.
func TestPasswords(t *testing.T) {
	t.Parallel()
	s := testkit.StartNATS(t, natsd.Config{Dir: t.TempDir(), Roles: []bus.Role{bus.ReaderRole(bus.RoleReader, bus.DefaultRealm)}})
	for name, opts := range map[string][]nats.Option{
		"no user":        nil,
		"wrong password": {nats.UserInfo(bus.RoleReader, "wrong")},
		"no such user":   {nats.UserInfo(bus.LocalUser, s.Password(bus.RoleReader))},
	} {
		nc, err := nats.Connect(s.URL(), append(opts, nats.Timeout(testkit.Timeout))...)
		if err == nil {
			nc.Close()
		}
		if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v", name, err)
		}
	}
	nc, err := nats.Connect(s.URL(), nats.UserInfo(bus.RoleReader, s.Password(bus.RoleReader)), nats.Timeout(testkit.Timeout))
	must.Succeed(t, err)
	nc.Close()
}

// A directory is one server's at a time; afterwards it is free.
func TestInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := testkit.StartNATS(t, natsd.Config{Dir: dir})
	if _, err := natsd.Start(natsd.Config{Dir: dir, Port: -1}); !errors.Is(err, natsd.ErrInUse) {
		t.Errorf("while it is in use: %v", err)
	}
	for range 2 {
		must.Succeed(t, s.Shutdown())
	}
	testkit.StartNATS(t, natsd.Config{Dir: dir})
}
