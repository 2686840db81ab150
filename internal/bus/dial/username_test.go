package dial_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
	"github.com/spf13/pflag"

	"github.com/coppice-gc/coppice/internal/bus/dial"
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
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	public, err := user.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	claims := jwt.NewUserClaims(public)
	claims.Name = "carol"
	token, err := claims.Encode(account)
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	decorated, err := jwt.FormatUserConfig(token, seed)
	if err != nil {
		t.Fatal(err)
	}
	creds := write("carol.creds", string(decorated))
	write("nats/context/dora.json", `{"url":"nats://127.0.0.1:1","user":"dora","password":"x"}`)
	name := func(args ...string) string {
		t.Helper()
		var c dial.Config
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		c.Flags(flags)
		if err := flags.Parse(args); err != nil {
			t.Fatal(err)
		}
		if err := c.Complete(); err != nil {
			t.Fatal(err)
		}
		got, err := c.UserName()
		if err != nil {
			t.Fatal(err)
		}
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
