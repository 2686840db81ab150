package containers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// An engine runs podman and buildah with a storage of their own. Containers have no network but the loopback interface
// of their own namespace.
type engine struct {
	ctx context.Context
	dir string
	env []string
	// started are the containers that run until the test ends.
	started []string
}

// newEngine returns an engine whose containers, volumes and images end with the test. The test needs root, podman,
// buildah and runc.
func newEngine(t *testing.T) *engine {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 15*time.Minute)
	dir := t.TempDir()
	e := &engine{ctx: ctx, dir: dir, env: os.Environ()}
	for variable, text := range map[string]string{
		// Limits that the machine may have, too, a runtime that needs no cgroups of version 2, and locks and files that
		// no other installation of podman has.
		"CONTAINERS_CONF": "[containers]\ndefault_ulimits = [\"nofile=4096:4096\", \"nproc=4096:4096\"]\n" +
			"[engine]\nruntime = \"runc\"\nlock_type = \"file\"\ntmp_dir = \"" + dir + "/libpod\"\n" +
			"[network]\nnetwork_config_dir = \"" + dir + "/networks\"\n",
		// A driver that needs nothing of the file system.
		"CONTAINERS_STORAGE_CONF": "[storage]\ndriver = \"vfs\"\ngraphroot = \"" + dir + "/store\"\nrunroot = \"" + dir + "/run\"\n",
	} {
		file := filepath.Join(dir, strings.ToLower(variable))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		e.env = append(e.env, variable+"="+file)
	}
	t.Cleanup(func() {
		for _, name := range slices.Backward(e.started) { // a container may have the network of one before it
			e.remove(t, name)
		}
		e.podman(t, "volume", "prune", "--force")
		e.podman(t, "rmi", "--all", "--force")
		stop()
	})
	return e
}

// command returns a command that uses the storage of the engine.
func (e *engine) command(program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(e.ctx, program, args...)
	cmd.Env = e.env
	return cmd
}

// try runs podman with an input, and returns what it prints on standard output, and an error with the rest.
func (e *engine) try(input string, args ...string) (string, error) {
	cmd := e.command("podman", args...)
	cmd.Stdin = strings.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("podman %s: %w\n%s%s", strings.Join(args, " "), err, stdout.Bytes(), stderr.Bytes())
	}
	return strings.TrimSpace(stdout.String()), err
}

// podman runs podman, and ends the test if it fails.
func (e *engine) podman(t *testing.T, args ...string) string {
	t.Helper()
	out, err := e.try("", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// buildah runs buildah, and ends the test if it fails.
func (e *engine) buildah(t *testing.T, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := e.command("buildah", args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("buildah %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out))
}

// start starts a container as an installation does that trusts it least: with a root file system that is read-only, and
// no capabilities.
func (e *engine) start(t *testing.T, name string, args ...string) {
	t.Helper()
	e.started = append(e.started, name)
	e.podman(t, append([]string{"run", "--detach", "--name", name, "--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges"}, args...)...)
}

// remove stops and removes a container and its volumes without a name.
func (e *engine) remove(t *testing.T, name string) {
	t.Helper()
	e.podman(t, "rm", "--force", "--ignore", "--volumes", "--time", "60", name)
}

// healthy waits until the health check of a container passes.
func (e *engine) healthy(t *testing.T, name string) {
	t.Helper()
	for limit := time.Now().Add(2 * time.Minute); ; {
		_, err := e.try("", "healthcheck", "run", name)
		if err == nil {
			break
		}
		state, stateErr := e.try("", "inspect", "--format", "{{.State.Status}}", name)
		if stateErr != nil || state != "running" || time.Now().After(limit) {
			logs, _ := e.command("podman", "logs", name).CombinedOutput()
			t.Fatalf("%s is %s (%v) and not healthy: %v\n%s", name, state, stateErr, err, logs)
		}
	}
	if status := e.podman(t, "inspect", "--format", "{{.State.Health.Status}}", name); status != "healthy" {
		t.Errorf("the status of %s is %s", name, status)
	}
}

// exitCode returns the exit code of a command that failed.
func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}
