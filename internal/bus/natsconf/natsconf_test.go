package natsconf_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsconf"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

const file = "../../../deploy/nats/coppice.conf"

func TestFileIsCurrent(t *testing.T) {
	t.Parallel()
	var want bytes.Buffer
	must.Succeed(t, natsconf.Write(&want, natsconf.DefaultRoles(), ""))
	got, err := os.ReadFile(file)
	must.Succeed(t, err)
	if !bytes.Equal(got, want.Bytes()) {
		t.Error("deploy/nats/coppice.conf is not what internal/bus says: run 'go generate ./internal/bus/natsconf'")
	}
}

// The server itself reads the file, and finds each role with its permissions: in the
// core account, or in an account of its own that imports what it may publish.
func TestServerReadsFile(t *testing.T) {
	roles := natsconf.DefaultRoles()
	for _, r := range roles {
		t.Setenv(natsconf.PasswordVariable(r.Name), "secret-"+r.Name)
	}
	path, err := filepath.Abs(file)
	must.Succeed(t, err)
	opts, err := server.ProcessConfigFile(path)
	must.Succeed(t, err)
	if !opts.SyncAlways {
		t.Error("what is acknowledged is not synced")
	}
	if len(opts.Users) != len(roles) {
		t.Fatalf("%d users, want %d", len(opts.Users), len(roles))
	}
	for _, r := range roles {
		at := slices.IndexFunc(opts.Users, func(u *server.User) bool { return u.Username == r.Name })
		if at < 0 {
			t.Fatalf("there is no user %s", r.Name)
		}
		u := opts.Users[at]
		account, imports := bus.CoreAccount, 0
		if len(bus.Actors([]bus.Role{r})) == 1 {
			account, imports = r.Name, len(r.Imports())
		}
		if u.Account.GetName() != account {
			t.Errorf("%s is in the account %s, want %s", r.Name, u.Account.GetName(), account)
		}
		if got := u.Account.NumServiceImports(); got != imports {
			t.Errorf("the account of %s imports %d subjects, want %d", r.Name, got, imports)
		}
		if u.Username != r.Name || u.Password != "secret-"+r.Name {
			t.Errorf("user %s has password %s", u.Username, u.Password)
		}
		if got := len(u.Permissions.Publish.Allow); got != len(r.Publish) {
			t.Errorf("%s may publish to %d patterns, want %d", r.Name, got, len(r.Publish))
		}
		if got := len(u.Permissions.Subscribe.Allow); got != len(r.Subscribe) {
			t.Errorf("%s may subscribe to %d patterns, want %d", r.Name, got, len(r.Subscribe))
		}
		if u.Permissions.Response != nil {
			t.Errorf("%s may publish to whatever reply subject a request names", r.Name)
		}
	}
}
