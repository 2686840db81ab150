package kubectl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/oracle"
)

// kubectl is the command, with a configuration and a working directory of its own.
type kubectl struct{ program, home, directory string }

// build builds the command.
func build(t *testing.T) *kubectl {
	t.Helper()
	k := &kubectl{home: t.TempDir(), directory: t.TempDir()}
	k.program = filepath.Join(k.home, "kubectl")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", "-o", k.program, "k8s.io/kubernetes/cmd/kubectl").CombinedOutput()
	if err != nil {
		t.Fatalf("build kubectl: %v\n%s", err, out)
	}
	return k
}

func (k *kubectl) config() string { return filepath.Join(k.home, "config") }

// result is what kubectl prints, and its exit code.
type result struct {
	args   []string
	code   int
	stdout string
	stderr string
}

// limit is the time that a command may take. Commands that wait have limits of their own.
const limit = time.Minute

// run runs kubectl without an input.
func (k *kubectl) run(ctx context.Context, args ...string) (*result, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(ctx, k.program, args...)
	command.Dir, command.Stdout, command.Stderr = k.directory, &stdout, &stderr
	command.Env = []string{"HOME=" + k.home, "KUBECONFIG=" + k.config(), "KUBECACHEDIR=" + filepath.Join(k.home, "cache"), "KUBERC=off"}
	err := command.Run()
	r := &result{args: args, code: command.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) && failed.Exited() {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, r.stderr)
	}
	return r, nil
}

var (
	// said is the output of a create or an apply of one object.
	said = regexp.MustCompile(`^\S+ ([a-z-]+)\n$`)
	// refused are the errors of the API server.
	refused = []struct {
		by *regexp.Regexp
		as string
	}{
		{regexp.MustCompile(`(?m)^Error from server \((\w+)\): `), ""},
		{regexp.MustCompile(`(?m)^Error from server: `), "refused"},
		{regexp.MustCompile(`(?m)^error: Operation cannot be fulfilled on `), "Conflict"},
		{regexp.MustCompile(`(?m)^The \S+ ".*" is invalid: `), "Invalid"},
	}
)

// written describes the result of a create or an apply.
func (r *result) written() (*oracle.Written, error) {
	w := &oracle.Written{Code: r.code, Warned: strings.Contains("\n"+r.stderr, "\nWarning: ")}
	if r.code == 0 {
		m := said.FindStringSubmatch(r.stdout)
		if m == nil {
			return nil, fmt.Errorf("kubectl %s: %q", strings.Join(r.args, " "), r.stdout)
		}
		w.Said = m[1]
		return w, nil
	}
	for _, e := range refused {
		if m := e.by.FindStringSubmatch(r.stderr); m != nil {
			if w.Said = e.as; len(m) > 1 {
				w.Said = m[1]
			}
			return w, nil
		}
	}
	return nil, fmt.Errorf("kubectl %s: exit code %d: %s", strings.Join(r.args, " "), r.code, r.stderr)
}
