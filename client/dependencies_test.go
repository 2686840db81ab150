package client_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// allowedModules are the modules that package client and its packages for programs may
// import: NATS, protobuf, what these need, and small libraries.
var allowedModules = []string{
	"github.com/coppice-gc/coppice",
	"github.com/nats-io/nats.go",
	"google.golang.org/protobuf",
	// nats.go needs these:
	"github.com/klauspost/compress",
	"github.com/nats-io/nkeys",
	"github.com/nats-io/nuid",
	"golang.org/x/crypto",
	"golang.org/x/sys",
	// package client needs these:
	"github.com/cespare/xxhash/v2",
	"github.com/google/uuid",
	"golang.org/x/sync",
	// package reconcile needs this:
	"golang.org/x/time",
}

// The SDK does not import Prometheus, YAML, the embedded server, Coppice's services or
// its rules: programs that use it stay small.
func TestDependencies(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if .Module}}{{.Module.Path}} {{.ImportPath}}{{end}}", ".", "./api", "./reconcile").Output()
	if err != nil {
		t.Fatal(err)
	}
	own := 0
	for line := range strings.Lines(string(out)) {
		module, pkg, _ := strings.Cut(strings.TrimSpace(line), " ")
		if module == "" {
			continue
		}
		if !slices.Contains(allowedModules, module) {
			t.Errorf("package client imports %s of module %s, which is not in allowedModules", pkg, module)
		}
		for _, forbidden := range []string{"/services/", "/internal/lifecycle", "/internal/testkit", "/internal/manifestfile", "/cmd/"} {
			if strings.Contains(pkg, forbidden) {
				t.Errorf("package client imports %s", pkg)
			}
		}
		own++
	}
	if own < 10 {
		t.Errorf("go list returned %d packages", own)
	}
}
