package dial_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
	"github.com/spf13/pflag"

	"github.com/coppice-gc/coppice/internal/bus/dial"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// The name of the user is known from flags, the environment, a context or
// credentials, of which those on the command line win.
func TestUserName(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	for _, v := range []string{"NATS_URL", "NATS_USER", "NATS_PASSWORD", "NATS_CREDS", "NATS_NKEY", "NATS_CONTEXT"} {
		t.Setenv(v, "")
	}
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o700))
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	user, err := nkeys.CreateUser()
	must.Succeed(t, err)
	account, err := nkeys.CreateAccount()
	must.Succeed(t, err)
	public, err := user.PublicKey()
	must.Succeed(t, err)
	claims := jwt.NewUserClaims(public)
	claims.Name = "carol"
	token, err := claims.Encode(account)
	must.Succeed(t, err)
	seed, err := user.Seed()
	must.Succeed(t, err)
	decorated, err := jwt.FormatUserConfig(token, seed)
	must.Succeed(t, err)
	creds := write("carol.creds", string(decorated))
	write("nats/context/dora.json", `{"url":"nats://127.0.0.1:1","user":"dora","password":"x"}`)
	name := func(args ...string) string {
		t.Helper()
		var c dial.Config
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		c.Flags(flags)
		must.Succeed(t, flags.Parse(args))
		must.Succeed(t, c.Complete())
		got, err := c.UserName()
		must.Succeed(t, err)
		return got
	}
	is := func(want string, args ...string) {
		t.Helper()
		if got := name(args...); got != want {
			t.Errorf("%v: %q, want %q", args, got, want)
		}
	}
	is("")
	is("", "--nkey", "some.nk")
	is("bert", "--user", "bert", "--password", "x")
	is("carol", "--creds", creds)
	is("dora", "--context", "dora")
	t.Setenv("NATS_USER", "bert")
	t.Setenv("NATS_PASSWORD", "x")
	is("bert")
	is("carol", "--creds", creds)
	is("dora", "--context", "dora")
	is("", "--nkey", "some.nk")
}
