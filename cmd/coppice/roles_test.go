package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
)

// interrupter is standard output that ends a command once it contains a text.
type interrupter struct {
	out    bytes.Buffer
	until  string
	cancel context.CancelFunc
}

func (w *interrupter) Write(b []byte) (int, error) {
	n, err := w.out.Write(b)
	if strings.Contains(w.out.String(), w.until) {
		w.cancel()
	}
	return n, err
}

// Under each role, each command succeeds or is refused at once, and information that
// the user may not read is left out with a note. Requests may take an hour here, and
// each command testkit.Timeout: one that waits for the reply to a denied request uses up its time.
func TestRoles(t *testing.T) {
	for _, accounts := range []bool{false, true} {
		t.Run(fmt.Sprintf("accounts=%t", accounts), func(t *testing.T) { testRoles(t, accounts) })
	}
}

// Every command runs under every role in TestRoles, unless it is one for files or services.
func TestRoleCommandsAreComplete(t *testing.T) {
	t.Parallel()
	begins := func(line, command string) bool { return line == command || strings.HasPrefix(line, command+" ") }
	all := roleCommands(t.TempDir())
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, s := range c.Commands() {
			walk(s)
		}
		path := strings.TrimPrefix(c.CommandPath(), "coppice ")
		if c.HasSubCommands() || !c.Runnable() || slices.ContainsFunc(noRoleCommands, func(no string) bool { return begins(path, no) }) {
			return
		}
		if !slices.ContainsFunc(all, func(r roleCommand) bool { return begins(r.args, path) }) {
			t.Errorf("coppice %s is run under no role: add it to roleCommands", path)
		}
	}
	walk(newRoot(strings.NewReader(""), io.Discard, io.Discard))
}

// roles runs commands under roles.
type roles struct {
	t     *testing.T
	stack *allinone.Stack
	// parked are the ids of the parked work of each role: RETRIED and DROPPED.
	parked map[string]map[string]string
}

// run runs a command, until it has written a text if there is one.
func (r *roles) run(role, stdin, until, args string) (stdout, stderr string, err error) {
	r.t.Helper()
	ctx, interrupt := context.WithTimeout(r.t.Context(), testkit.Timeout)
	defer interrupt()
	out := &interrupter{cancel: func() {}}
	if until != "" {
		out.until, out.cancel = until, interrupt
	}
	var errs bytes.Buffer
	root := newRoot(strings.NewReader(stdin), out, &errs)
	root.SetArgs(append(strings.Fields(args), "--server", r.stack.Server().URL(), "--user", role, "--password", r.stack.Server().Password(role)))
	err = root.ExecuteContext(ctx)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		r.t.Fatalf("%s: coppice %s: it waited for a reply for %v: %v\n%s", role, args, testkit.Timeout, err, errs.String())
	}
	return out.out.String(), errs.String(), err
}

// operate runs a command that prepares others.
func (r *roles) operate(stdin, args string) {
	r.t.Helper()
	if _, errs, err := r.run(bus.RoleOperator, stdin, "", args); err != nil {
		r.t.Fatalf("%s: coppice %s: %v\n%s", bus.RoleOperator, args, err, errs)
	}
}

// of puts a role in place of ROLE, and the ids of its parked work.
func (r *roles) of(role, text string) string {
	text = strings.ReplaceAll(text, "ROLE", role)
	for name, id := range r.parked[role] {
		text = strings.ReplaceAll(text, name, id)
	}
	return text
}

// release removes the finalizers that are left.
func (r *roles) release() {
	r.t.Helper()
	for _, role := range clientRoles {
		for _, what := range []string{"-blocked example.com/hold", "-forced example.com/hold", "-site example.com/site"} {
			args := "finalizer remove cm/" + role + what + " --reason test"
			if _, errs, err := r.run(bus.RoleOperator, "", "", args); err != nil && !errors.Is(err, client.ErrNotFound) {
				r.t.Fatalf("%s: coppice %s: %v\n%s", bus.RoleOperator, args, err, errs)
			}
		}
	}
}

// park parks work, as that of a message with a sequence, and returns its id.
func (r *roles) park(sequence uint64) string {
	r.t.Helper()
	nc, err := nats.Connect(r.stack.Server().URL(), append(r.stack.Server().Options(bus.RoleProcessor), nats.Timeout(testkit.Timeout))...)
	must.Succeed(r.t, err)
	defer nc.Close()
	subject := bus.WorkSubject(bus.DefaultRealm, bus.QueueDirty)
	data, err := proto.Marshal(&coppicev1.Parked{Subject: subject, Message: []byte("rubbish"), Error: "rubbish"})
	must.Succeed(r.t, err)
	reply, err := nc.Request(bus.ParkedSubject(bus.DefaultRealm, subject, sequence), data, testkit.Timeout)
	must.Succeed(r.t, err)
	var ack struct {
		Seq uint64 `json:"seq"`
	}
	if err := json.Unmarshal(reply.Data, &ack); err != nil || ack.Seq == 0 {
		r.t.Fatalf("%s: %v", reply.Data, err)
	}
	return fmt.Sprint(ack.Seq)
}

// elect has an operator lead a controller until the test has ended.
func (r *roles) elect() {
	r.t.Helper()
	nc, err := nats.Connect(r.stack.Server().URL(), append(r.stack.Server().Options(bus.RoleOperator), nats.Timeout(testkit.Timeout))...)
	must.Succeed(r.t, err)
	ctx, stop := context.WithCancel(r.t.Context())
	leads, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- client.New(nc, client.WithActor(bus.RoleOperator)).RunLeader(ctx, "example.com/leads", func(ctx context.Context) error {
			close(leads)
			<-ctx.Done()
			return nil
		}, client.LeaseTTL(10*time.Minute), client.LeaderName("host-1/4711 \x1b[31m"))
	}()
	r.t.Cleanup(func() {
		stop()
		must.Succeed(r.t, testkit.Receive(r.t, context.WithoutCancel(ctx), "the end of the leader", ended))
		nc.Close()
	})
	testkit.Receive(r.t, ctx, "a leader", leads)
}

// prepare creates the objects, the parked work and the files of each role.
func (r *roles) prepare(dir string) {
	r.t.Helper()
	r.elect()
	for i, role := range clientRoles {
		r.operate(r.of(role, roleObjects), "import -f -")
		for _, name := range roleDeleted {
			r.operate("", "delete cm/"+role+"-"+name)
		}
		r.parked[role] = map[string]string{"RETRIED": r.park(uint64(2*i + 1)), "DROPPED": r.park(uint64(2*i + 2))}
		for name, manifest := range roleFiles {
			must.Succeed(r.t, os.WriteFile(filepath.Join(dir, name+"-"+role+".yaml"), []byte(r.of(role, manifest)), 0o600))
		}
	}
}

func testRoles(t *testing.T, accounts bool) {
	t.Helper()
	for _, v := range []string{"URL", "USER", "PASSWORD", "CREDS", "NKEY", "CERT", "KEY", "CA", "CONTEXT"} {
		t.Setenv("NATS_"+v, "")
	}
	t.Setenv("COPPICE_ACTOR", "")
	t.Setenv("COPPICE_REALM", "")
	t.Setenv("COPPICE_EDITOR", "sed -i s/unedited/edited/")
	t.Setenv("NATS_TIMEOUT", "1h")
	stack := startStack(t, allinone.Config{Auth: accounts, Roles: []bus.Role{controllerRole}})
	r := &roles{t: t, stack: stack, parked: map[string]map[string]string{}}
	dir := t.TempDir()
	r.prepare(dir)
	for _, c := range roleCommands(dir) {
		if c.args == idle {
			r.release()
		}
		for _, role := range clientRoles {
			if c.before != "" {
				r.operate("", r.of(role, c.before))
			}
		}
		for _, role := range clientRoles {
			r.check(role, &c)
		}
	}
}

// check runs a command under a role.
func (r *roles) check(role string, c *roleCommand) {
	t := r.t
	t.Helper()
	args, want, until := r.of(role, c.args), r.of(role, c.stdout), ""
	if c.endless {
		until = want
	}
	begun := time.Now()
	stdout, stderr, err := r.run(role, "", until, args)
	t.Logf("%5d ms  %-12s coppice %s", time.Since(begun).Milliseconds(), role, args)
	said := stderr
	if err != nil {
		said += err.Error()
	}
	switch {
	case !slices.Contains(c.allowed, role):
		if err == nil || errors.Is(err, context.Canceled) || !strings.Contains(said, "the NATS user may not ") || !strings.Contains(said, fmt.Sprintf("as actor %q", role)) {
			t.Errorf("%s: coppice %s: %v, want a refusal that names the request and the actor\n%s", role, args, err, stderr)
		}
		return
	case c.fails != "":
		if err == nil || !strings.Contains(said, c.fails) {
			t.Errorf("%s: coppice %s: %v, want a refusal by the realm that says %q\n%s", role, args, err, c.fails, stderr)
		}
	case err != nil && (!c.endless || !errors.Is(err, context.Canceled)):
		t.Errorf("%s: coppice %s: %v\n%s", role, args, err, stderr)
	}
	if !strings.Contains(stdout, want) {
		t.Errorf("%s: coppice %s: %q does not say %q\n%s", role, args, stdout, want, stderr)
	}
	checkNotes(t, role+": coppice "+args, stderr, c.missing[role])
}

// checkNotes checks that notes name just what is missing, each once.
func checkNotes(t *testing.T, what, stderr string, missing []string) {
	t.Helper()
	noted := map[string]int{}
	for line := range strings.Lines(stderr) {
		rest, ok := strings.CutPrefix(line, "not shown: ")
		if !ok {
			continue
		}
		name, why, _ := strings.Cut(rest, ": ")
		noted[name]++
		if !strings.HasPrefix(why, "the NATS user may not ") {
			t.Errorf("%s: the note %q does not say why", what, line)
		}
	}
	want := map[string]int{}
	for _, name := range missing {
		want[name] = 1
	}
	if !maps.Equal(noted, want) {
		t.Errorf("%s: notes about %v, want %v\n%s", what, noted, want, stderr)
	}
}

// The deletion is sent, although the user may not read what would be deleted with the
// object: neither that nor waiting keeps it from being sent.
func TestDeleteIsSentFirst(t *testing.T) {
	t.Setenv("NATS_TIMEOUT", "1h")
	t.Setenv("COPPICE_ACTOR", "")
	t.Setenv("COPPICE_REALM", "")
	ctx := testkit.Context(t)
	eraser := bus.Role{Name: "eraser", Subscribe: []string{bus.InboxPrefix("eraser") + ".>"}}
	for _, verb := range []string{bus.VerbList, bus.VerbDelete} {
		eraser.Publish = append(eraser.Publish, bus.API{Realm: bus.DefaultRealm, Actor: "eraser", Verb: verb, Group: "*", Plural: "*", Namespace: "*"}.Subject())
	}
	stack := startStack(t, allinone.Config{Roles: []bus.Role{eraser}})
	run := func(role, stdin string, args ...string) (string, error) {
		var out, errs bytes.Buffer
		root := newRoot(strings.NewReader(stdin), &out, &errs)
		root.SetArgs(append(args, "--server", stack.Server().URL(), "--user", role, "--password", stack.Server().Password(role)))
		err := root.ExecuteContext(ctx)
		return errs.String(), err
	}
	if _, err := run(bus.RoleOperator, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	stderr, err := run("eraser", "", "delete", "cm/a", "--wait")
	if !errors.Is(err, client.ErrForbidden) || !strings.HasPrefix(fmt.Sprint(err), "cannot wait: ") || !strings.HasSuffix(fmt.Sprint(err), "; the deletion goes on without this command") {
		t.Errorf("the command ended with %v", err)
	}
	checkNotes(t, "delete --wait", stderr, []string{lookup.AboutTotals})
	if _, err := run(bus.RoleOperator, "", "get", "cm", "a"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("the object is still there: %v", err)
	}
}
