// Package engine runs podman and buildah in tests, with a storage of their own.
package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// An Engine runs podman and buildah with a storage of their own.
type Engine struct {
	// Dir is a temporary directory.
	Dir string
	// Env is the environment of podman, buildah and what runs them.
	Env []string
	ctx context.Context
	// started are the containers that run until the test ends.
	started []string
}

// New returns an engine whose containers, volumes and images end with the test. The test needs root, podman, buildah
// and runc, and takes at most the time of limit.
func New(t *testing.T, limit time.Duration) *Engine {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), limit)
	dir := t.TempDir()
	// podman starts a container again only if this path has at most 50 characters: its command to clean up refuses others.
	run, err := os.MkdirTemp("/run", "podman-")
	if err != nil {
		t.Fatal(err)
	}
	e := &Engine{Dir: dir, Env: os.Environ(), ctx: ctx}
	for variable, text := range map[string]string{
		// Limits that the machine may have, too, a runtime that needs no cgroups of version 2, and locks and files that
		// no other installation of podman has.
		"CONTAINERS_CONF": "[containers]\ndefault_ulimits = [\"nofile=4096:4096\", \"nproc=4096:4096\"]\n" +
			"[engine]\nruntime = \"runc\"\nlock_type = \"file\"\ntmp_dir = \"" + dir + "/libpod\"\n" +
			"[network]\nnetwork_config_dir = \"" + dir + "/networks\"\n",
		// A driver that needs nothing of the file system.
		"CONTAINERS_STORAGE_CONF": "[storage]\ndriver = \"vfs\"\ngraphroot = \"" + dir + "/store\"\nrunroot = \"" + run + "\"\n",
	} {
		file := filepath.Join(dir, strings.ToLower(variable))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		e.Env = append(e.Env, variable+"="+file)
	}
	t.Cleanup(func() {
		for _, name := range slices.Backward(e.started) { // a container may have the network of one before it
			e.Remove(t, name)
		}
		e.Podman(t, "volume", "prune", "--force")
		e.Podman(t, "rmi", "--all", "--force")
		stop()
		if err := os.RemoveAll(run); err != nil {
			t.Error(err)
		}
	})
	return e
}

// Command returns a command that uses the storage of the engine.
func (e *Engine) Command(program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(e.ctx, program, args...)
	cmd.Env = e.Env
	return cmd
}

// Try runs podman with an input, and returns what it prints on standard output, and an error with the rest.
func (e *Engine) Try(input string, args ...string) (string, error) {
	cmd := e.Command("podman", args...)
	cmd.Stdin = strings.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("podman %s: %w\n%s%s", strings.Join(args, " "), err, stdout.Bytes(), stderr.Bytes())
	}
	return strings.TrimSpace(stdout.String()), err
}

// Podman runs podman, and ends the test if it fails.
func (e *Engine) Podman(t *testing.T, args ...string) string {
	t.Helper()
	out, err := e.Try("", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Buildah runs buildah, and ends the test if it fails.
func (e *Engine) Buildah(t *testing.T, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := e.Command("buildah", args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("buildah %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out))
}

// Start starts a container as an installation does that trusts it least: with a root file system that is read-only, and
// no capabilities.
func (e *Engine) Start(t *testing.T, name string, args ...string) {
	t.Helper()
	e.started = append(e.started, name)
	e.Podman(t, append([]string{"run", "--detach", "--name", name, "--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges"}, args...)...)
}

// Remove stops and removes a container and its volumes without a name.
func (e *Engine) Remove(t *testing.T, name string) {
	t.Helper()
	e.Podman(t, "rm", "--force", "--ignore", "--volumes", "--time", "60", name)
}

// Healthy waits until the health check of a container passes.
func (e *Engine) Healthy(t *testing.T, name string) {
	t.Helper()
	for limit := time.Now().Add(2 * time.Minute); ; {
		_, err := e.Try("", "healthcheck", "run", name)
		if err == nil {
			break
		}
		state, stateErr := e.Try("", "inspect", "--format", "{{.State.Status}}", name)
		if stateErr != nil || state != "running" || time.Now().After(limit) {
			logs, _ := e.Command("podman", "logs", name).CombinedOutput()
			t.Fatalf("%s is %s (%v) and not healthy: %v\n%s", name, state, stateErr, err, logs)
		}
	}
	if status := e.Podman(t, "inspect", "--format", "{{.State.Health.Status}}", name); status != "healthy" {
		t.Errorf("the status of %s is %s", name, status)
	}
}

// Confined checks that the process of a container is not root, and has no capability.
func (e *Engine) Confined(t *testing.T, name string) {
	t.Helper()
	data, err := os.ReadFile("/proc/" + e.Podman(t, "inspect", "--format", "{{.State.Pid}}", name) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`Uid:\s65532\s65532\s65532\s65532`, `Gid:\s65532\s65532\s65532\s65532`, `CapEff:\s0+`, `CapPrm:\s0+`, `NoNewPrivs:\s1`} {
		if !regexp.MustCompile(`(?m)^` + line + `$`).Match(data) {
			t.Errorf("%s: the process has no line %s:\n%s", name, line, data)
		}
	}
}

// NATSServer builds the NATS server of the module in the directory root, and returns the directory of the program.
func (e *Engine) NATSServer(t *testing.T, root string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	build := e.Command("go", "build", "-o", dir+"/", "github.com/nats-io/nats-server/v2")
	build.Dir, build.Env = root, append(e.Env, "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the NATS server: %v\n%s", err, out)
	}
	return dir
}

// ExitCode returns the exit code of a command that failed.
func ExitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}
