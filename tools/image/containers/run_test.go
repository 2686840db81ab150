package containers_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
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
func (e *engine) runs(t *testing.T, image string) {
	t.Helper()
	t.Logf("running %s", image)
	e.podman(t, "volume", "create", "data")
	e.start(t, "up", "--network", "none", "--volume", "data:/var/lib/coppice", "--env", "COPPICE_HTTP=:9440", image, "up", "--auth", "--host", "0.0.0.0")
	e.healthy(t, "up")
	e.confined(t, "up")

	// A client in a container of its own, with the network of the service, and its users.
	client := func(input string, args ...string) string {
		t.Helper()
		out, err := e.try(input, append([]string{"run", "--rm", "--interactive", "--no-healthcheck", "--network", "container:up", "--read-only", "--cap-drop", "all",
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
	e.podman(t, "stop", "--time", "60", "up")
	if code := e.podman(t, "inspect", "--format", "{{.State.ExitCode}}", "up"); code != "0" {
		t.Errorf("the container ended with the code %s", code)
	}
	e.podman(t, "start", "up")
	e.healthy(t, "up")
	if got := client("", "get", "deploy,rs,cm", "-n", "shop", "-o", "name"); got != "configmaps/kept" {
		t.Errorf("after the restart there are %q", got)
	}
	if got := client("", "verify"); !strings.HasPrefix(got, "state equals the log") {
		t.Errorf("verify prints %s", got)
	}
	if got := e.podman(t, "exec", "up", "coppice", "ready"); !strings.Contains(got, "ready") {
		t.Errorf("coppice ready prints %s", got)
	}
	if changed := e.podman(t, "diff", "up"); strings.Contains(changed, " /var/lib/coppice/") || strings.Contains(changed, " /usr") {
		t.Errorf("the container changed %s", changed)
	}
	e.remove(t, "up")
	e.podman(t, "volume", "rm", "data")
}

// confined checks that the process of a container is not root, and has no capability.
func (e *engine) confined(t *testing.T, name string) {
	t.Helper()
	data, err := os.ReadFile("/proc/" + e.podman(t, "inspect", "--format", "{{.State.Pid}}", name) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`Uid:\s65532\s65532\s65532\s65532`, `Gid:\s65532\s65532\s65532\s65532`, `CapEff:\s0+`, `CapPrm:\s0+`, `NoNewPrivs:\s1`} {
		if !regexp.MustCompile(`(?m)^` + line + `$`).Match(data) {
			t.Errorf("%s: the process has no line %s:\n%s", name, line, data)
		}
	}
}

// Each service runs in a container of its own, with the variables that deploy/docker/README.md names. Until it is ready
// its health check fails, and says what it waits for.
func TestServices(t *testing.T) {
	e := newEngine(t)
	e.load(t)
	services := []string{"graph", "processor", "finalizers", "scanner"}

	// The first container has a network namespace with the loopback interface, which the others join.
	server := e.natsServer(t)
	e.podman(t, "volume", "create", "graph")
	for i, name := range services {
		args := []string{"--env", "NATS_URL=nats://127.0.0.1:4222", "--env", fmt.Sprintf("COPPICE_HTTP=:%d", 9440+i), "--env", "COPPICE_LOG_FORMAT=json"}
		if i == 0 {
			args = append(args, "--network", "none", "--volume", "graph:/var/lib/coppice")
		} else {
			args = append(args, "--network", "container:graph")
		}
		e.start(t, name, append(args, archived, name)...)
	}
	for _, name := range services {
		if out, err := e.try("", "healthcheck", "run", name); exitCode(err) != 1 {
			t.Errorf("%s is healthy without a NATS server: %s (%v)", name, out, err)
		}
	}
	if out, err := e.try("", "exec", "graph", "coppice", "ready"); exitCode(err) != 1 || !strings.Contains(err.Error(), "graph at http://127.0.0.1:9440 is not ready: waiting for NATS") {
		t.Errorf("without a NATS server coppice ready prints %s (%v)", out, err)
	}

	e.start(t, "nats", "--network", "container:graph", "--no-healthcheck", "--volume", server+":/nats:ro", "--volume", "nats:/var/lib/coppice",
		"--entrypoint", "/nats/nats-server", archived, "--jetstream", "--store_dir", "/var/lib/coppice", "--addr", "127.0.0.1")
	for _, name := range services {
		e.healthy(t, name)
		e.confined(t, name)
	}
	client := func(input string, args ...string) string {
		t.Helper()
		out, err := e.try(input, append([]string{"run", "--rm", "--interactive", "--no-healthcheck", "--network", "container:graph", archived}, args...)...)
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

// natsServer builds a NATS server, and returns its directory.
func (e *engine) natsServer(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CGO_ENABLED", "0")
	output(t, root, "go", "build", "-o", dir+"/", "github.com/nats-io/nats-server/v2")
	return dir
}
