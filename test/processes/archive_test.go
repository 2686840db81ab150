//go:build unix

package processes_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/bus"
)

// With the configuration of deploy/nats, a graph service archives into an object store: a realm
// that is deleted is archived first, and is restored from the object store alone. No other user may read it.
func TestProcessesArchive(t *testing.T) {
	t.Parallel()
	const url = "nats://archive"
	d := newDeployment(t)
	d.nats()
	services := []*service{d.service(bus.RoleGraph, "--data", filepath.Join(d.dir, "graph"), "--archive", url)}
	for _, role := range []string{bus.RoleProcessor, bus.RoleFinalizers, bus.RoleScanner} {
		services = append(services, d.service(role))
	}
	for _, s := range services {
		s.ready()
	}
	d.operate("realm", "create", "shop")
	d.family("shop")
	if out := d.operate("realm", "delete", "shop", "--confirm", "shop"); !strings.Contains(out, "realm shop deleted") {
		t.Errorf("the deletion printed %s", out)
	}
	run := func(role string, args ...string) (code int, out string) {
		t.Helper()
		p := d.command(strings.Join(args[:2], "-"), role, password(role), args...)
		return p.code(), p.output()
	}
	code, out := run(bus.RoleGraph, "archive", "verify", url)
	if code != 0 || !strings.Contains(out, "commits 1 to ") || !strings.Contains(out, ": 0 problems") {
		t.Errorf("the archive is verified with exit code %d: %s", code, out)
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(out, "realm id "), ":")
	if code, out := run(bus.RoleOperator, "archive", "ls", url); code == 0 || strings.Contains(out, id) {
		t.Errorf("an operator lists the archive with exit code %d: %s", code, out)
	}
	if code, out := run(bus.RoleGraph, "realm", "restore", "again", "--from", url, "--archive", url, "--id", id); code != 0 || !strings.Contains(out, "realm again: restored ") {
		t.Errorf("the realm is restored with exit code %d: %s", code, out)
	}
	d.operate("realm", "create", "again")
	d.operate("realm", "resume", "again")
	d.family("again")
}
