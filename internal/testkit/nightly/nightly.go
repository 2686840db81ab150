// Package nightly tells the tests of the gate, .ci/run, from those of .ci/nightly.
//
// Tests of the gate need Go, git and a bare python3, run without root, and draw the same
// inputs each time. A test that needs more, or minutes, calls [Test] first. The answer depends on
// nothing but the variable COPPICE_NIGHTLY: not on what the machine happens to have.
//
// The package imports neither NATS nor Pebble, so that a test of a codec links neither.
package nightly

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// Variable is the environment variable that .ci/nightly sets.
const Variable = "COPPICE_NIGHTLY"

// On reports whether the tests of .ci/nightly run.
func On() bool { return os.Getenv(Variable) != "" }

// Need is what a test needs and the gate does not have.
type Need struct {
	what string       // completes "needs ..."
	find func() error // why the machine lacks it; nil if that cannot be
}

// What tests need.
var (
	NATSCommand = command("nats", "go build -o DIR -modfile=tools/nats/go.mod github.com/nats-io/natscli/nats")
	S3Server    = command("versitygw", "go build -o DIR -modfile=tools/s3/go.mod github.com/versity/versitygw/cmd/versitygw")
	Prometheus  = command("prometheus", "the Debian package prometheus")
	Zstandard   = Need{"a python3 with the module zstandard, which a Debian package of the same name has (python3-zstandard)", func() error {
		_, err := Python("zstandard")
		return err
	}}
	// SmallDisk is a file system of the test's own, which takes root on Linux to mount.
	SmallDisk = Need{"a file system of its own, which takes root on Linux to mount", mayMount}
	// OwnMachine is a network, a table of processes and mounts of the test's own, which takes root on Linux.
	OwnMachine = Need{"a network of its own, which takes root on Linux, unshare and ip", func() error {
		_, missing := exec.LookPath("unshare")
		_, missing2 := exec.LookPath("ip")
		return errors.Join(mayMount(), missing, missing2)
	}}
	// History is the commits that the repository has, back to the one in test/mixed/BASE.
	History = Need{"the git history", history}
	// Minutes is time: the test takes longer than the gate gives it.
	Minutes = Need{what: "minutes"}
)

// Test skips a test, unless the tests of .ci/nightly run; with them it fails a test whose needs
// the machine does not meet.
func Test(tb testing.TB, need Need, more ...Need) {
	tb.Helper()
	for _, n := range append([]Need{need}, more...) {
		if !On() {
			tb.Skipf("a test of .ci/nightly: needs %s; %s=1 runs it", n.what, Variable)
		}
		if n.find == nil {
			continue
		}
		if err := n.find(); err != nil {
			tb.Fatalf("needs %s: %v", n.what, err)
		}
	}
}

// Seed is what tests draw from: 1, or the value of RAPID_SEED, from which the tests that use
// package rapid draw as well. .ci/nightly draws it, and prints it.
func Seed(tb testing.TB) uint64 {
	tb.Helper()
	seed, err := seedOfRun()
	must.Succeed(tb, err)
	return seed
}

// SeedFlag defines a flag for what the tests of a package draw from. Its default is Seed.
func SeedFlag(name, usage string) *uint64 {
	seed, err := seedOfRun()
	if err != nil {
		panic(err)
	}
	return flag.Uint64(name, seed, usage)
}

func seedOfRun() (uint64, error) {
	text := os.Getenv("RAPID_SEED")
	if text == "" {
		return 1, nil
	}
	seed, err := strconv.ParseUint(text, 0, 64) // as package rapid reads it
	if err != nil {
		return 0, fmt.Errorf("RAPID_SEED: %w", err)
	}
	return seed, nil
}

// Python returns the first Python of this machine that has a module: the python3 of the PATH,
// or that of the system, for which distributions package modules.
func Python(module string) (file string, err error) {
	for _, file = range []string{"python3", "/usr/bin/python3"} {
		out, failed := exec.Command(file, "-c", "import "+module).CombinedOutput() //nolint:gosec // the names are those of this list and of tests
		if failed == nil {
			return file, nil
		}
		err = errors.Join(err, fmt.Errorf("%s: %w: %s", file, failed, out))
	}
	return "", err
}

func command(name, build string) Need {
	return Need{fmt.Sprintf("the command %s (%s)", name, build), func() error {
		_, err := exec.LookPath(name)
		return err
	}}
}

func mayMount() error {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return fmt.Errorf("user %d on %s may not mount", os.Geteuid(), runtime.GOOS)
	}
	return nil
}

func history() error {
	out, err := exec.Command("git", "rev-parse", "--git-path", "shallow").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	if _, err := os.Stat(filepath.Clean(string(out[:max(len(out)-1, 0)]))); err == nil {
		return errors.New("the repository is a shallow clone")
	}
	return nil
}
