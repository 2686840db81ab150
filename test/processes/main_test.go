//go:build unix

// Package processes_test runs Coppice as it is deployed: a NATS server with the
// configuration in deploy/nats, and each service as a process with the user of its role.
package processes_test

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// module is the module's root.
const module = "../.."

// programs is the directory of the programs, which the first test that runs
// one builds.
var (
	programs string
	build    = sync.OnceValue(buildPrograms)
)

func TestMain(m *testing.M) {
	if os.Getenv(controllerName) != "" { // the test has started itself
		runController()
		return
	}
	dir, err := os.MkdirTemp("", "coppice-processes-")
	if err != nil {
		panic(err)
	}
	programs = dir
	testkit.ManyAtOnce()
	testkit.Main(m, func() { _ = os.RemoveAll(dir) })
}

// buildOnce builds the programs once for all tests.
func buildOnce(t *testing.T) {
	t.Helper()
	must.Succeed(t, build())
}

func program(name string) string { return filepath.Join(programs, name) }

// buildPrograms builds Coppice, with the race detector if the test has it, and
// the NATS server of the version that go.mod names.
func buildPrograms() error {
	const coppice, nats, controller = "./cmd/coppice", "github.com/nats-io/nats-server/v2", "./examples/controller"
	if !testkit.Raced {
		return cmp.Or(goBuild(coppice, nats, controller), lookAtSources())
	}
	return cmp.Or(goBuild("-race", coppice, controller), goBuild(nats), lookAtSources())
}

func goBuild(args ...string) error {
	c := exec.Command("go", append([]string{"build", "-buildvcs=false", "-o", programs + string(filepath.Separator)}, args...)...)
	c.Dir = module
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", c.Args, err, out)
	}
	return nil
}

// lookAtSources reads the sources of the programs, because `go test` reuses a cached result
// unless a file that the test has read was changed.
func lookAtSources() error {
	for _, dir := range []string{"client", "cmd", "deploy", "examples", "internal", "proto", "services", "go.mod"} {
		err := filepath.WalkDir(filepath.Join(module, dir), func(path string, _ fs.DirEntry, err error) error {
			if err == nil {
				_, err = os.Stat(path)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
