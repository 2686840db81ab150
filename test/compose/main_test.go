// Package compose_test follows deploy/compose/README.md with podman-compose, and examines the files of Compose.
package compose_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// The repository.
const root = "../.."

// inside is set in the process that runs the tests.
const inside = "COPPICE_COMPOSE_TEST_INSIDE"

// TestMain runs the tests in namespaces of their own, so that the containers have a network without any other machine,
// whose ports no other program has, and end with the tests. What tests build is downloaded before.
func TestMain(m *testing.M) {
	if os.Getenv(inside) != "" {
		os.Exit(m.Run())
	}
	for _, dir := range []string{root, root + "/tools/image"} {
		if out, err := exec.Command("go", "-C", dir, "mod", "download").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go mod download in %s: %v\n%s", dir, err, out)
			os.Exit(1)
		}
	}
	tests := exec.Command("unshare", append([]string{"--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
		"sh", "-c", `ip link set lo up && mount -t tmpfs tmpfs /run && exec "$0" "$@"`}, os.Args...)...)
	tests.Env = append(os.Environ(), inside+"=1")
	tests.Stdin, tests.Stdout, tests.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := tests.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "run the tests in namespaces, which needs root on Linux:", err)
		os.Exit(1)
	}
}
