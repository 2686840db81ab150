package oracle_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/coppice-gc/coppice/internal/oracle"
)

// TestKubernetes plays the scripts. With -rewrite their outputs are recorded.
func TestKubernetes(t *testing.T) {
	k, version := startKubernetes(t), version(t)
	datadriven.Walk(t, "../../internal/oracle/testdata", func(t *testing.T, path string) {
		t.Helper()
		name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		script := oracle.New(name, k, version)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			out, err := script.Run(t.Context(), d)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			return out
		})
		if !script.Done() {
			t.Errorf("%s does not end with 'recorded'", path)
		}
	})
}

// version is that of the API server. (The build info of a test has no modules.)
func version(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "k8s.io/apiextensions-apiserver").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
