//go:build unix

package processes_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
)

// Processors, finalizers, a scanner, an SDK client and the command line of the commit in
// test/mixed/BASE work with this graph service: cascades of each policy complete. A
// graph service of that commit, which does not know this log, refuses it, says what to do,
// and changes nothing.
func TestMixedVersions(t *testing.T) {
	nightly.Test(t, nightly.History, nightly.Minutes) // it builds the older version
	t.Parallel()
	older := olderOf(t, "BASE")
	d := newDeployment(t)
	d.nats()
	graph := d.graph()
	graph.ready()
	for _, role := range []string{bus.RoleProcessor, bus.RoleFinalizers, bus.RoleScanner} {
		d.older(older.coppice, role, role, role).serving().ready()
	}
	finalizer := start(t, d.ctx, d.dir, "older-finalizer", []string{"HOME=" + d.dir, "NATS_URL=" + d.url()},
		older.finalizer, bus.RoleFinalizer, password(bus.RoleFinalizer), bus.ExampleFinalizer)

	for _, policy := range []string{"Background", "Foreground"} {
		tr := d.plant(100, 5, 10)
		d.remove(tr.client, deployments, "web", policy)
		tr.gone()
		d.remove(tr.client, deployments, "keeper", policy)
		testkit.WaitFor(t, d.ctx, "the kept objects and their owner to go", func() bool {
			return len(tr.left(pods, 1)) == 0 && len(tr.left(deployments, 1)) == 0
		})
	}
	tr := d.plant(10, 2, 0)
	d.remove(tr.client, deployments, "web", "Orphan")
	testkit.WaitFor(t, d.ctx, "the owner to go", func() bool { return len(tr.left(deployments, 2)) == 1 })
	if left := len(tr.left(replicasets, 100)); left != 10 {
		t.Errorf("%d dependents were orphaned, want 10", left)
	}

	// The older command line, and the older SDK as a finalizer.
	run := func(args ...string) string {
		t.Helper()
		p := d.older(older.coppice, "older-"+strings.Join(args[:2], "-"), bus.RoleApplication, args...)
		if code := p.code(); code != 0 {
			t.Fatalf("coppice %s of BASE ended with exit code %d: %s", args, code, p.output())
		}
		return p.output()
	}
	manifest := filepath.Join(d.dir, "bucket.yaml")
	must.Succeed(t, os.WriteFile(manifest, []byte(`apiVersion: v1
kind: Secret
metadata:
  name: bucket
  namespace: shop
  finalizers: [`+bus.ExampleFinalizer+`]
`), 0o600))
	run("create", "-f", manifest)
	run("get", "secrets", "-n", namespace)
	if out := run("delete", "secrets", "bucket", "-n", namespace, "--wait"); out == "" {
		t.Error("coppice delete of BASE says nothing")
	}
	finalizer.says("cleaning up after secrets/bucket")
	if out := d.operate("verify"); !strings.Contains(out, "state equals the log") {
		t.Errorf("verify says %q", out)
	}
	graph.terminate()

	js, err := jetstream.New(d.conn(bus.RoleAdmin, nil))
	must.Succeed(t, err)
	last := func() jetstream.StreamState {
		s, err := js.Stream(d.ctx, bus.LogStream(bus.DefaultRealm))
		must.Succeed(t, err)
		return s.CachedInfo().State
	}
	was := last()
	refused := d.older(older.coppice, "older-graph", bus.RoleGraph, bus.RoleGraph, "--data", filepath.Join(d.dir, "older"))
	if code := refused.code(); code == 0 {
		t.Error("the graph service of BASE ended without an error")
	}
	if out := refused.output(); !strings.Contains(out, "cannot hold a log") {
		t.Errorf("the graph service of BASE says: %s", out)
	}
	if is := last(); is.LastSeq != was.LastSeq || is.Msgs != was.Msgs {
		t.Errorf("the log is %+v, and was %+v", is, was)
	}
}

// olderPrograms are the programs of an older commit, and the configuration of NATS that it has in deploy/nats.
type olderPrograms struct{ coppice, finalizer, conf string }

// olderOf returns the programs of the commit in a file of test/mixed: the command, and a finalizer that uses its SDK.
func olderOf(t *testing.T, file string) olderPrograms {
	t.Helper()
	base, err := os.ReadFile(filepath.Join(module, "test/mixed", file))
	must.Succeed(t, err)
	return olderAt(t, strings.TrimSpace(string(base)))
}

// olderBuilds has a function for each commit, which builds its programs once for all tests.
var olderBuilds sync.Map

// olderAt is olderOf for a commit.
func olderAt(t *testing.T, commit string) olderPrograms {
	t.Helper()
	buildOnce(t)
	build, _ := olderBuilds.LoadOrStore(commit, sync.OnceValues(func() (olderPrograms, error) { return buildOlder(commit) }))
	older, err := build.(func() (olderPrograms, error))()
	must.Succeed(t, err)
	return older
}

// buildOlder builds programs of a commit.
func buildOlder(commit string) (o olderPrograms, err error) {
	dir := filepath.Join(programs, commit)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return o, err
	}
	archive, err := exec.Command("git", "-C", module, "archive", commit).Output()
	if err != nil {
		return o, fmt.Errorf("git archive of %s: %w", commit, err)
	}
	tar := exec.Command("tar", "-x", "-C", dir)
	tar.Stdin = bytes.NewReader(archive)
	if out, err := tar.CombinedOutput(); err != nil {
		return o, fmt.Errorf("tar: %w: %s", err, out)
	}
	source, err := os.ReadFile("testdata/finalizer.go.txt")
	if err != nil {
		return o, err
	}
	if err := os.WriteFile(filepath.Join(dir, "examples/finalizer/main.go"), source, 0o600); err != nil {
		return o, err
	}
	build := exec.Command("go", "build", "-buildvcs=false", "-o", dir+"/programs/", "./cmd/coppice", "./examples/finalizer")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		return o, fmt.Errorf("%v: %w\n%s", build.Args, err, out)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return o, err
	}
	return olderPrograms{coppice: dir + "/programs/coppice", finalizer: dir + "/programs/finalizer", conf: dir + "/deploy/nats/coppice.conf"}, nil
}

// older starts a command of an older version with the user of a role.
func (d *deployment) older(path, name, role string, args ...string) *process {
	d.t.Helper()
	return start(d.t, d.ctx, d.dir, name, d.environment(password(role)), path, append(args, "--server", d.url(), "--user", role)...)
}
