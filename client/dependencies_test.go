package client_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// sdkModules are the modules that package client may import: NATS, protobuf, what these need,
// and small libraries.
var sdkModules = []string{
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
	"github.com/google/uuid",
	"golang.org/x/sync",
	// The API of OpenTelemetry, and what it needs:
	"github.com/cespare/xxhash/v2",
	"go.opentelemetry.io/otel",
	"go.opentelemetry.io/otel/trace",
}

// The SDK does not import Prometheus, YAML, the embedded server, Coppice's services or
// its rules: programs that use it stay small. Each list names only imported modules.
func TestDependencies(t *testing.T) {
	t.Parallel()
	for pkg, allowed := range map[string][]string{
		".":           sdkModules,
		"./api":       {"github.com/coppice-gc/coppice", "google.golang.org/protobuf"},
		"./reconcile": slices.Concat(sdkModules, []string{"golang.org/x/time"}),
		"./restore":   sdkModules,
	} {
		t.Run(pkg, func(t *testing.T) {
			t.Parallel()
			out, err := exec.Command("go", "list", "-deps", "-f", "{{if .Module}}{{.Module.Path}} {{.ImportPath}}{{end}}", pkg).Output()
			must.Succeed(t, err)
			imported := map[string]bool{}
			for line := range strings.Lines(string(out)) {
				module, of, _ := strings.Cut(strings.TrimSpace(line), " ")
				if module == "" {
					continue
				}
				imported[module] = true
				if !slices.Contains(allowed, module) {
					t.Errorf("%s imports %s of module %s, which is not in its list", pkg, of, module)
				}
				for _, forbidden := range []string{"/services/", "/internal/lifecycle", "/internal/testkit", "/internal/manifestfile", "/cmd/"} {
					if strings.Contains(of, forbidden) {
						t.Errorf("%s imports %s", pkg, of)
					}
				}
			}
			for _, module := range allowed {
				if !imported[module] {
					t.Errorf("%s does not import module %s, which is in its list", pkg, module)
				}
			}
		})
	}
}
