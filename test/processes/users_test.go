//go:build unix

package processes_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
)

// On a NATS server without users, every service becomes ready without a flag, and does its work.
func TestProcessesWithoutUsers(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	server := start(t, d.ctx, d.dir, "nats-server", nil, program("nats-server"), "--jetstream", "--store_dir", "nats", "--addr", "127.0.0.1", "--port", strconv.Itoa(d.port))
	server.says("Server is ready")
	env := []string{"HOME=" + d.dir, "TMPDIR=" + d.dir, "NATS_URL=" + d.url(), "NATS_TIMEOUT=" + testkit.Timeout.String(), "COPPICE_HTTP=127.0.0.1:0"}
	var services []*service
	for _, role := range []string{bus.RoleGraph, bus.RoleProcessor, bus.RoleScanner, bus.RoleFinalizers} {
		services = append(services, start(t, d.ctx, d.dir, role, env, program("coppice"), role).serving())
	}
	for _, s := range services {
		s.ready()
	}
	// A processor evaluates the dependent, and the built-in finalizers end the deletion.
	c := d.application()
	owner := d.create(c, deployments, object("web"))[0]
	d.create(c, replicasets, object("web-1", owner))
	d.remove(c, deployments, "web", "Foreground")
	testkit.WaitFor(t, d.ctx, "the deployment to be removed", func() bool {
		_, err := c.Resource(deployments, namespace).Get(d.ctx, "web")
		return errors.Is(err, client.ErrNotFound)
	})
	for _, s := range services {
		s.terminate()
		if out := s.output(); strings.Contains(out, "_INBOX") {
			t.Errorf("the graph service refuses requests of %s:\n%s", s.name, out)
		}
	}
	server.terminate()
}
