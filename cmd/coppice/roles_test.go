package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/services/allinone"
)

// clientRoles are the roles of clients that deployments begin with.
var clientRoles = []string{bus.RoleReader, bus.RoleApplication, bus.RoleOperator, bus.RoleFinalizer, bus.RoleAgent}

// roleCommand is a command, and what each role gets of it.
type roleCommand struct {
	// args may contain ROLE. Each role has objects of its own: see roleObjects.
	args string
	// stdout is what the output contains where the command is allowed.
	stdout string
	// allowed are the roles that may run the command. Every other role is refused.
	allowed []string
	// missing is optional information that a role is not shown.
	missing map[string][]string
	// endless commands are interrupted when they have printed stdout.
	endless bool
}

// roleObjects are the objects of a role.
const roleObjects = `{apiVersion: v1, kind: ConfigMap, metadata: {name: ROLE-web, uid: ROLE-web}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: ROLE-child, uid: ROLE-child, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: ROLE-web, uid: ROLE-web}]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: ROLE-other, uid: ROLE-other}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: ROLE-held, uid: ROLE-held, finalizers: [example.com/hold]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: ROLE-removed, uid: ROLE-removed}}
`

func roleCommands(dir string) []roleCommand {
	var (
		all     = []string{bus.RoleReader, bus.RoleApplication, bus.RoleOperator}
		writers = []string{bus.RoleApplication, bus.RoleOperator}
		viewers = []string{bus.RoleReader, bus.RoleOperator}
		only    = []string{bus.RoleOperator}
	)
	// What an application may not read of an object that an external finalizer blocks.
	held := map[string][]string{bus.RoleApplication: {lookup.AboutEvents, lookup.AboutWarnings, lookup.AboutParked}}
	return []roleCommand{
		{args: "get cm ROLE-web", stdout: "ROLE-web", allowed: all},
		{args: "describe cm ROLE-held", stdout: "example.com/hold", allowed: all, missing: held},
		{args: "explain cm/ROLE-held", stdout: "example.com/hold", allowed: all, missing: map[string][]string{bus.RoleApplication: {lookup.AboutEvents, lookup.AboutParked}}},
		{args: "explain cm/ROLE-removed", stdout: "was removed", allowed: viewers},
		{args: "tree cm/ROLE-web", stdout: "ROLE-child", allowed: all},
		{args: "tree cm/ROLE-child --up", stdout: "ROLE-web", allowed: all},
		{args: "plan delete cm/ROLE-web", stdout: "2 objects removed", allowed: all},
		{args: "events cm/ROLE-web", stdout: "ObjectCreated", allowed: viewers},
		{args: "events cm/ROLE-web --follow", stdout: "ObjectCreated", allowed: viewers, endless: true},
		{args: "watch cm ROLE-web", stdout: "ADDED", allowed: all, endless: true},
		{args: "get cm ROLE-web -w", stdout: "ROLE-web", allowed: all, endless: true},
		{args: "parked", allowed: viewers},
		{args: "verify", stdout: "state equals the log", allowed: only},
		{args: "realm resume default", stdout: "was not paused", allowed: only},
		{args: "realm list", stdout: "default", allowed: viewers},
		{args: "realm describe default", stdout: "the defaults", allowed: viewers},
		{args: "realm create ROLE-realm", stdout: "created", allowed: only},
		{args: "realm set default importIdle=10m", stdout: "changed", allowed: only},
		{args: "apply -f " + filepath.Join(dir, "apply-ROLE.yaml"), stdout: "applied-ROLE", allowed: writers},
		{args: "import -f " + filepath.Join(dir, "import-ROLE.yaml"), stdout: "1 object", allowed: only},
		{args: "finalizer remove cm/ROLE-held example.com/hold --reason test", stdout: "the object is gone", allowed: only},
		{args: "delete cm/ROLE-other", stdout: "deleted", allowed: writers},
		{args: "delete cm/ROLE-web --wait", stdout: "removed 2/2", allowed: writers},
		// Last: it waits for the objects of all roles, which the operator releases before.
		{args: idle, stdout: "idle at revision", allowed: all},
	}
}

const idle = "wait --idle"

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
// all commands together a few minutes: one that waited for the reply to a denied
// request would use up the time of all.
func TestRoles(t *testing.T) {
	for _, accounts := range []bool{false, true} {
		t.Run(fmt.Sprintf("accounts=%t", accounts), func(t *testing.T) { testRoles(t, accounts) })
	}
}

func testRoles(t *testing.T, accounts bool) {
	t.Helper()
	for _, v := range []string{"URL", "USER", "PASSWORD", "CREDS", "NKEY", "CERT", "KEY", "CA", "CONTEXT"} {
		t.Setenv("NATS_"+v, "")
	}
	t.Setenv("COPPICE_ACTOR", "")
	t.Setenv("COPPICE_REALM", "")
	t.Setenv("NATS_TIMEOUT", "1h")
	ctx, cancel := context.WithTimeout(testkit.Context(t), 3*time.Minute)
	defer cancel()
	stack, err := allinone.Start(ctx, allinone.Config{Dir: t.TempDir(), Port: -1, Auth: accounts})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stack.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := stack.Await(ctx); err != nil {
		t.Fatal(err)
	}
	run := func(role, stdin, until, args string) (stdout, stderr string, err error) {
		ctx, interrupt := context.WithCancel(ctx)
		defer interrupt()
		out := &interrupter{cancel: func() {}}
		if until != "" {
			out.until, out.cancel = until, interrupt
		}
		var errs bytes.Buffer
		root := newRoot(strings.NewReader(stdin), out, &errs)
		root.SetArgs(append(strings.Fields(args), "--server", stack.Server().URL(), "--user", role, "--password", stack.Server().Password(role)))
		err = root.ExecuteContext(ctx)
		return out.out.String(), errs.String(), err
	}
	for _, role := range clientRoles {
		if _, errs, err := run(bus.RoleOperator, strings.ReplaceAll(roleObjects, "ROLE", role), "", "import -f -"); err != nil {
			t.Fatal(err, errs)
		}
		for _, name := range []string{"held", "removed"} {
			if _, errs, err := run(bus.RoleOperator, "", "", "delete cm/"+role+"-"+name); err != nil {
				t.Fatal(err, errs)
			}
		}
	}
	dir := t.TempDir()
	for _, role := range clientRoles {
		for name, manifest := range map[string]string{
			"apply":  "{apiVersion: v1, kind: ConfigMap, metadata: {name: applied-%s}}",
			"import": "{apiVersion: v1, kind: ConfigMap, metadata: {name: imported-%[1]s, uid: imported-%[1]s}}",
		} {
			if err := os.WriteFile(filepath.Join(dir, name+"-"+role+".yaml"), fmt.Appendf(nil, manifest, role), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range roleCommands(dir) {
		for _, role := range clientRoles {
			if c.args == idle && role != bus.RoleOperator { // its own is gone
				if _, errs, err := run(bus.RoleOperator, "", "", "finalizer remove cm/"+role+"-held example.com/hold --reason test"); err != nil {
					t.Fatal(err, errs)
				}
			}
		}
		for _, role := range clientRoles {
			args := strings.ReplaceAll(c.args, "ROLE", role)
			until := ""
			if c.endless {
				until = strings.ReplaceAll(c.stdout, "ROLE", role)
			}
			stdout, stderr, err := run(role, "", until, args)
			if ctx.Err() != nil {
				t.Fatalf("%s: coppice %s: it, or one before it, waited for a reply: %v", role, args, err)
			}
			if !slices.Contains(c.allowed, role) {
				said := stderr
				if err != nil {
					said += err.Error()
				}
				if err == nil || errors.Is(err, context.Canceled) || !strings.Contains(said, "the NATS user may not ") || !strings.Contains(said, fmt.Sprintf("as actor %q", role)) {
					t.Errorf("%s: coppice %s: %v, want a refusal that names the request and the actor\n%s", role, args, err, stderr)
				}
				continue
			}
			if err != nil && (!c.endless || !errors.Is(err, context.Canceled)) {
				t.Errorf("%s: coppice %s: %v\n%s", role, args, err, stderr)
			}
			if !strings.Contains(stdout, strings.ReplaceAll(c.stdout, "ROLE", role)) {
				t.Errorf("%s: coppice %s: %q does not say %q", role, args, stdout, c.stdout)
			}
			checkNotes(t, role+": coppice "+args, stderr, c.missing[role])
		}
	}
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
	stack, err := allinone.Start(ctx, allinone.Config{Dir: t.TempDir(), Port: -1, Roles: []bus.Role{eraser}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stack.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := stack.Await(ctx); err != nil {
		t.Fatal(err)
	}
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
	if !errors.Is(err, client.ErrForbidden) || !strings.Contains(fmt.Sprint(err), "the deletion goes on, but this command cannot wait for it") {
		t.Errorf("the command ended with %v", err)
	}
	checkNotes(t, "delete --wait", stderr, []string{lookup.AboutTotals})
	if _, err := run(bus.RoleOperator, "", "get", "cm", "a"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("the object is still there: %v", err)
	}
}
