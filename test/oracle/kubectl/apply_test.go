package kubectl_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/coppice-gc/coppice/internal/oracle"
	"github.com/coppice-gc/coppice/test/oracle/oracletest"
)

// TestKubectl plays the scripts. With -rewrite it records their outputs.
func TestKubectl(t *testing.T) {
	k := start(t)
	version := oracletest.Version(t, "k8s.io/kubectl") + ", " + oracletest.Version(t, "k8s.io/kubernetes")
	const scripts = "../../../internal/oracle/testdata/"
	t.Run("apply", func(t *testing.T) { playApply(t, k, scripts+"apply", version) })
	t.Run("commands", func(t *testing.T) { playCommands(t, k, scripts+"commands", version) })
}

// playApply plays the scripts of kubectl apply.
func playApply(t *testing.T, k *kubernetes, scripts, version string) {
	t.Helper()
	datadriven.Walk(t, scripts, func(t *testing.T, path string) {
		t.Helper()
		name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		script := oracle.NewApply(strings.ToLower(name), k, version)
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
