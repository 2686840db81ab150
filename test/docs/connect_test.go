package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/coppice-gc/coppice/internal/bus/natsconf"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// The program of docs/api.md connects as a user of its own, on a NATS server with the configuration that the command
// before it writes.
func TestConnect(t *testing.T) {
	t.Parallel()
	blocks, _, _ := pages(t)
	const file = "docs/api.md"
	i := slices.IndexFunc(blocks, func(b block) bool { return b.file == file && strings.HasPrefix(b.text, "package main\n") })
	if i < 1 || len(blocks[i-1].commands()) != 1 {
		t.Fatalf("%s has no program with a command before it", file)
	}
	dir := t.TempDir()
	s := &shell{player: &player{ctx: testkit.Context(t), dir: dir}}
	if s.run(t, blocks[i-1].commands()[0].text); s.err != nil {
		t.Fatalf("%v: %s", s.err, s.output())
	}
	p := playerOf(t, startConfigured(t, filepath.Join(dir, "coppice.conf")))
	p.serve(t, passwordOf, operationsCommands(t, `^coppice graph .*--user \S+ +--data `)[0].text, `msg=ready\b`)

	s.write(t, "main.go", blocks[i].text)
	program := filepath.Join(dir, "program")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program, filepath.Join(dir, "main.go"))
	build.Dir = module
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p.env = []string{"NATS_PASSWORD=" + passwordOf("shop")}
	p.start(t, program, "").says(t, `(?m)^created welcome$`)
}

// passwordOf is the password of a user of startConfigured.
func passwordOf(user string) string { return "secret-of-" + user }

// startConfigured starts a NATS server with a configuration of coppice nats-config, apart from its port and its
// directory, and returns its address.
func startConfigured(t *testing.T, file string) (url string) {
	t.Helper()
	data, err := os.ReadFile(file)
	must.Succeed(t, err)
	// A configuration finds its variables in itself before the environment, which the tests share.
	var passwords strings.Builder
	for line := range strings.Lines(string(data)) {
		if user, ok := strings.CutPrefix(strings.TrimSpace(line), "user: "); ok {
			passwords.WriteString(natsconf.PasswordVariable(user) + ": \"" + passwordOf(user) + "\"\n")
		}
	}
	must.Succeed(t, os.WriteFile(file, append([]byte(passwords.String()), data...), 0o600))
	opts, err := server.ProcessConfigFile(file)
	must.Succeed(t, err)
	opts.Port, opts.StoreDir, opts.NoSigs, opts.AuthTimeout = server.RANDOM_PORT, t.TempDir(), true, testkit.Timeout.Seconds()
	ns, err := server.NewServer(opts)
	must.Succeed(t, err)
	go ns.Start()
	t.Cleanup(func() {
		ns.Shutdown()
		ns.WaitForShutdown()
	})
	if !ns.ReadyForConnections(testkit.Timeout) {
		t.Fatal("the NATS server accepts no connections")
	}
	return ns.ClientURL()
}
