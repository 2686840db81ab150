package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// Commands alone bring up accounts by JWT: nats-config writes and pushes them, graph serves with --account-keys, and a user
// who is added and removed is accepted and refused without a restart of anything.
func TestAccountsByJWT(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	dir := filepath.Join(t.TempDir(), "accounts")
	run := func(want int, args ...string) string {
		t.Helper()
		var out, errs strings.Builder
		if code := Main(args, strings.NewReader(""), &out, &errs); code != want {
			t.Fatalf("coppice %v: exit code %d: %s%s", args, code, out.String(), errs.String())
		}
		return out.String() + errs.String()
	}
	config := func(want int, args ...string) string {
		t.Helper()
		return run(want, append([]string{"nats-config", "--jwt", dir, "--timeout", testkit.Timeout.String()}, args...)...)
	}
	if out := config(0); !strings.Contains(out, "application: added; credentials in "+filepath.Join(dir, "creds", "application.creds")) || !strings.Contains(out, "--push") {
		t.Errorf("the accounts: %s", out)
	}
	url := testkit.StartIncluding(t, filepath.Join(dir, "resolver.conf"), "./coppice-accounts", 1)[0].ClientURL()
	if out := config(0, "--push", "--server", url); !strings.Contains(out, "n1: application: jwt updated\n") || !strings.HasPrefix(out, "0 files of") {
		t.Errorf("the push: %s", out)
	}
	creds := func(user string) string { return filepath.Join(dir, "creds", user+".creds") }
	if out := config(1, "--push", "--server", url, "--creds", creds("operator")); !strings.Contains(out, "sys.creds") {
		t.Errorf("a push as an operator: %s", out)
	}
	var log testkit.Output
	graph := exec.CommandContext(context.WithoutCancel(ctx), program(t), "graph", "--server", url, "--creds", creds("graph"), "--answers-creds", creds("graph-answers"),
		"--account-keys", filepath.Join(dir, "accounts.json"), "--data", t.TempDir(), "--lease", testkit.Timeout.String(), "--http", "127.0.0.1:0")
	graph.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	graph.Stdout, graph.Stderr = &log, &log
	must.Succeed(t, graph.Start())
	t.Cleanup(func() {
		_ = graph.Process.Signal(os.Interrupt)
		if err := graph.Wait(); err != nil {
			t.Errorf("graph: %v: %s", err, log.String())
		}
	})
	get := func(user string) (int, string) {
		var out, errs strings.Builder
		code := Main([]string{"get", "configmaps", "--server", url, "--creds", creds(user), "--timeout", testkit.Timeout.String()}, strings.NewReader(""), &out, &errs)
		return code, errs.String()
	}
	testkit.WaitFor(t, ctx, "the graph service", func() bool { return strings.Contains(log.String(), "msg=ready") })
	if code, errs := get("application"); code != 0 {
		t.Fatalf("an application: %s", errs)
	}
	if out := config(0, "--viewer", "viewer", "--viewer", "auditor", "--push", "--server", url); !strings.HasPrefix(out, "auditor: added; ") {
		t.Errorf("another user: %s", out)
	}
	testkit.WaitFor(t, ctx, "the graph service to read the accounts", func() bool {
		code, errs := get("auditor")
		if code != 0 && !strings.Contains(errs, "--account-keys") {
			t.Fatalf("another user: %s", errs)
		}
		return code == 0
	})
	kept := filepath.Join(t.TempDir(), "auditor.creds")
	must.Succeed(t, os.Rename(creds("auditor"), kept))
	if out := config(0, "--push", "--delete-removed", "--server", url); !strings.HasPrefix(out, "auditor: removed; ") || !strings.Contains(out, "deleted 1 accounts") {
		t.Errorf("without the user: %s", out)
	}
	must.Succeed(t, os.Rename(kept, creds("auditor")))
	if code, errs := get("auditor"); code != 1 || !strings.Contains(errs, "refuses these credentials") {
		t.Errorf("a user who was removed: %d, %s", code, errs)
	}
}
