// Package pods_test runs the pods of the chart without a kubelet: their containers' arguments
// and environment, their user, a root file system that has only the program and cannot be
// written, and their volumes, on three NATS servers. It needs root on Linux.
package pods_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/coppice-gc/coppice/test/kubernetes/chart"
)

const (
	repository = "../../.."
	inside     = "TEST_PODS_INSIDE" // set in the namespaces of the test
)

// address is that of the pods, at which a kubelet sends probes: not one of the loopback
// interface.
const address = "192.0.2.1"

var servers = []string{"127.0.0.11", "127.0.0.12", "127.0.0.13"}

// TestPods starts the pods before the NATS servers: they are alive and not ready, and then
// ready. A deletion is carried out. The pods stop within their period of grace, and the
// graph service continues with its volume.
func TestPods(t *testing.T) {
	if os.Getenv(inside) == "" {
		again(t)
		return
	}
	tools := os.Getenv(inside)
	succeed(t, exec.Command("ip", "link", "set", "lo", "up").Run())
	succeed(t, exec.Command("ip", "address", "add", address, "dev", "lo").Run())
	dir := t.TempDir()
	succeed(t, os.Chmod(filepath.Dir(dir), 0o755)) // pods have another user
	succeed(t, os.Chmod(dir, 0o755))
	secrets := install(t, tools, dir)

	values := map[string]any{"nats": map[string]any{"url": "nats://" + strings.Join(servers, ":4222,nats://") + ":4222"}}
	var all []*pod
	for name, spec := range templates(t, values) {
		all = append(all, build(t, filepath.Join(dir, name), tools, spec, secrets))
	}
	if len(all) != 4 {
		t.Fatalf("%d pods", len(all))
	}
	for _, p := range all {
		p.start(t)
		p.await(t, p.container().LivenessProbe, http.StatusOK)
		p.await(t, p.container().ReadinessProbe, http.StatusServiceUnavailable)
	}
	for i := range servers {
		startNATS(t, tools, dir, i)
	}
	for _, p := range all {
		p.await(t, p.container().ReadinessProbe, http.StatusOK)
	}

	client := func(input string, args ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), filepath.Join(tools, "coppice"), args...)
		c.Env = []string{"NATS_URL=nats://" + servers[0] + ":4222", "NATS_USER=operator", "NATS_PASSWORD_FILE=" + filepath.Join(dir, "passwords", "operator"), "HOME=" + dir}
		c.Stdin = strings.NewReader(input)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("coppice %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	client(manifest("owner", ""), "create", "-f", "-")
	uid := client("", "get", "configmap/owner", "-o", "jsonpath={.metadata.uid}")
	client(manifest("dependent", fmt.Sprintf(", ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: %s, blockOwnerDeletion: true}]", uid)), "create", "-f", "-")
	client(manifest("other", ""), "create", "-f", "-")
	if out := client("", "delete", "configmap/owner", "--cascade=foreground", "--wait", "--timeout", "1m"); !strings.Contains(out, "removed 2/2") {
		t.Errorf("delete prints %s", out)
	}
	client("", "verify") // in the graph pod, at /tmp

	graph := all[slices.IndexFunc(all, func(p *pod) bool { return p.container().Name == "graph" })]
	graph.exec(t, "ready")
	for _, p := range all {
		p.stop(t)
	}
	graph.start(t)
	graph.await(t, graph.container().ReadinessProbe, http.StatusOK)
	if out := client("", "get", "configmaps", "-o", "name"); strings.TrimSpace(out) != "configmaps/other" {
		t.Errorf("after a restart: %s", out)
	}
}

func manifest(name, metadata string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: default%s}}", name, metadata)
}

// again runs this test in namespaces of its own, in which the ports of the pods are free,
// and with which all processes end.
func again(t *testing.T) {
	t.Helper()
	tools := t.TempDir()
	c := exec.CommandContext(t.Context(), "go", "build", "-o", tools+"/", "./cmd/coppice", "github.com/nats-io/nats-server/v2")
	c.Dir = repository
	c.Env = append(os.Environ(), "CGO_ENABLED=0") // the file systems of pods have no libraries
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c = exec.CommandContext(t.Context(), "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", os.Args[0], "-test.run=^TestPods$", "-test.v", "-test.timeout=15m")
	c.Env = append(os.Environ(), inside+"="+tools)
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "\n--- PASS: TestPods ") {
		t.Fatalf("%v: %s", err, out)
	}
}

// install writes the secrets of an installation, and returns what is in those that the pods
// mount, by name and key.
func install(t *testing.T, tools, dir string) map[string]map[string][]byte {
	t.Helper()
	c := exec.CommandContext(t.Context(), "bash", "-eu", "-c", "coppice secret new coppice.secret && coppice nats-config --passwords passwords > accounts.conf")
	c.Dir, c.Env = dir, append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"))
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	read := func(file string) []byte {
		text, err := os.ReadFile(filepath.Join(dir, file))
		succeed(t, err)
		return text
	}
	passwords := map[string][]byte{}
	for _, user := range []string{"graph", "graph-answers", "processor", "finalizers", "scanner"} {
		passwords[user] = read("passwords/" + user)
	}
	return map[string]map[string][]byte{"coppice-nats": passwords, "coppice-secret": {"coppice.secret": read("coppice.secret")}}
}

// startNATS starts a NATS server with the settings of deploy/helm/nats.yaml.
func startNATS(t *testing.T, tools, dir string, i int) {
	t.Helper()
	var routes strings.Builder
	for _, s := range servers {
		fmt.Fprintf(&routes, "%q, ", "nats://"+s+":6222")
	}
	config := filepath.Join(dir, fmt.Sprintf("nats-%d.conf", i))
	succeed(t, os.WriteFile(config, fmt.Appendf(nil, `
include ./accounts.conf
server_name: nats-%d
listen: "%s:4222"
jetstream { store_dir: %q, sync_interval: always, max_memory_store: 1Gi }
cluster { name: nats, listen: "%s:6222", routes: [%s] }
`, i, servers[i], filepath.Join(dir, fmt.Sprintf("nats-%d", i)), servers[i], routes.String()), 0o600))
	c := exec.CommandContext(t.Context(), filepath.Join(tools, "nats-server"), "-c", config)
	var log bytes.Buffer
	c.Stdout, c.Stderr = &log, &log
	succeed(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() {
			t.Logf("%s", log.String())
		}
	})
}

// templates returns the templates of the chart's pods, by the names of their controllers.
func templates(t *testing.T, values map[string]any) map[string]core.PodSpec {
	t.Helper()
	c, err := chart.Load(repository)
	succeed(t, err)
	files, err := chart.Render(c, values)
	succeed(t, err)
	all := map[string]core.PodSpec{}
	for _, m := range chart.Manifests(files) {
		var o apps.StatefulSet // a Deployment has the same fields
		succeed(t, yaml.Unmarshal([]byte(m), &o))
		if o.Kind != "StatefulSet" && o.Kind != "Deployment" {
			continue
		}
		spec := o.Spec.Template.Spec
		for _, c := range o.Spec.VolumeClaimTemplates {
			spec.Volumes = append(spec.Volumes, core.Volume{Name: c.Name})
		}
		all[o.Name] = spec
	}
	return all
}

func succeed(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// await waits until a probe has a reply.
func (p *pod) await(t *testing.T, probe *core.Probe, code int) {
	t.Helper()
	url := fmt.Sprintf("http://%s:%d%s", address, p.container().Ports[0].ContainerPort, probe.HTTPGet.Path)
	var got string
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		if p.ended() {
			return false, errors.New("the process has ended")
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false, err
		}
		reply, err := http.DefaultClient.Do(request)
		if err != nil {
			got = err.Error()
			return false, nil
		}
		defer reply.Body.Close()
		text, _ := io.ReadAll(reply.Body)
		got = fmt.Sprintf("%s: %s", reply.Status, text)
		return reply.StatusCode == code, nil
	})
	if err != nil {
		t.Fatalf("%s %s: want %d: %v: %s\n%s", p.container().Name, probe.HTTPGet.Path, code, err, got, p.log())
	}
}

// stop stops the process as a kubelet does.
func (p *pod) stop(t *testing.T) {
	t.Helper()
	succeed(t, p.process.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.done:
	case <-time.After(time.Duration(*p.spec.TerminationGracePeriodSeconds) * time.Second):
		t.Fatalf("%s does not end within its period of grace\n%s", p.container().Name, p.log())
	}
	if !p.process.ProcessState.Success() {
		t.Errorf("%s ends with %v\n%s", p.container().Name, p.process.ProcessState, p.log())
	}
}
