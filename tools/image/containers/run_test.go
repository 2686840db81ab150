package containers_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/tools/image/engine"
)

// A Deployment, a ReplicaSet that it owns, and a ConfigMap that it does not own.
const manifests = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, uid: 9af49740-96f5-40ee-9e25-02420ae59635}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: web-1
  namespace: shop
  uid: 64b1ccff-e273-46b5-8541-7c9ef32a1b41
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: 9af49740-96f5-40ee-9e25-02420ae59635}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kept, namespace: shop, uid: cdb6c292-71e7-422d-a15e-b66f65b4848e}
`

// runs runs an image: all services in one container, with clients in containers of the same image.
func (e *images) runs(t *testing.T, image string) {
	t.Helper()
	t.Logf("running %s", image)
	e.Podman(t, "volume", "create", "data")
	e.Start(t, "up", "--network", "none", "--volume", "data:/var/lib/coppice", "--env", "COPPICE_HTTP=:9440", image, "up", "--auth", "--host", "0.0.0.0")
	e.Healthy(t, "up")
	e.Confined(t, "up")

	// A client in a container of its own, with the network of the service, and its users.
	client := func(input string, args ...string) string {
		t.Helper()
		out, err := e.Try(input, append([]string{"run", "--rm", "--interactive", "--no-healthcheck", "--network", "container:up", "--read-only", "--cap-drop", "all",
			"--volume", "data:/var/lib/coppice:ro", "--env", "XDG_CONFIG_HOME=/var/lib/coppice/users", "--env", "NATS_CONTEXT=operator", image}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := client(manifests, "import", "-f", "-"); !strings.HasPrefix(got, "3 objects: 1 reference solid") {
		t.Fatalf("import prints %s", got)
	}
	if got := client("", "delete", "deploy/web", "-n", "shop", "--wait"); !strings.Contains(got, "removed 2/2") {
		t.Errorf("delete prints %s", got)
	}

	// A stop is clean, and a restart finds the data.
	e.Podman(t, "stop", "--time", "60", "up")
	if code := e.Podman(t, "inspect", "--format", "{{.State.ExitCode}}", "up"); code != "0" {
		t.Errorf("the container ended with the code %s", code)
	}
	e.Podman(t, "start", "up")
	e.Healthy(t, "up")
	if got := client("", "get", "deploy,rs,cm", "-n", "shop", "-o", "name"); got != "configmaps/kept" {
		t.Errorf("after the restart there are %q", got)
	}
	if got := client("", "verify"); !strings.HasPrefix(got, "state equals the log") {
		t.Errorf("verify prints %s", got)
	}
	if got := e.Podman(t, "exec", "up", "coppice", "ready"); !strings.Contains(got, "ready") {
		t.Errorf("coppice ready prints %s", got)
	}
	if changed := e.Podman(t, "diff", "up"); strings.Contains(changed, " /var/lib/coppice/") || strings.Contains(changed, " /usr") {
		t.Errorf("the container changed %s", changed)
	}
	e.Remove(t, "up")
	e.Podman(t, "volume", "rm", "data")
}

// Each service runs in a container of its own, with the variables that deploy/docker/README.md names. Until it is ready
// its health check fails, and says what it waits for.
func TestServices(t *testing.T) {
	e := newImages(t)
	e.load(t)
	services := []string{"graph", "processor", "finalizers", "scanner"}

	// The first container has a network namespace with the loopback interface, which the others join.
	server := e.NATSServer(t, root)
	e.Podman(t, "volume", "create", "graph")
	for i, name := range services {
		args := []string{"--env", "NATS_URL=nats://127.0.0.1:4222", "--env", fmt.Sprintf("COPPICE_HTTP=:%d", 9440+i), "--env", "COPPICE_LOG_FORMAT=json"}
		if i == 0 {
			args = append(args, "--network", "none", "--volume", "graph:/var/lib/coppice")
		} else {
			args = append(args, "--network", "container:graph")
		}
		e.Start(t, name, append(args, archived, name)...)
	}
	for _, name := range services {
		if out, err := e.Try("", "healthcheck", "run", name); engine.ExitCode(err) != 1 {
			t.Errorf("%s is healthy without a NATS server: %s (%v)", name, out, err)
		}
	}
	if out, err := e.Try("", "exec", "graph", "coppice", "ready"); engine.ExitCode(err) != 1 || !strings.Contains(err.Error(), "graph at http://127.0.0.1:9440 is not ready: waiting for NATS") {
		t.Errorf("without a NATS server coppice ready prints %s (%v)", out, err)
	}

	e.Start(t, "nats", "--network", "container:graph", "--no-healthcheck", "--volume", server+":/nats:ro", "--volume", "nats:/var/lib/coppice",
		"--entrypoint", "/nats/nats-server", archived, "--jetstream", "--store_dir", "/var/lib/coppice", "--addr", "127.0.0.1")
	for _, name := range services {
		e.Healthy(t, name)
		e.Confined(t, name)
	}
	client := func(input string, args ...string) string {
		t.Helper()
		out, err := e.Try(input, append([]string{"run", "--rm", "--interactive", "--no-healthcheck", "--network", "container:graph", archived}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	client(manifests, "import", "-f", "-")
	if got := client("", "delete", "deploy/web", "-n", "shop", "--wait"); !strings.Contains(got, "removed 2/2") {
		t.Errorf("delete prints %s", got)
	}
}
