package oracle_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/coppice-gc/coppice/internal/oracle"
	"github.com/coppice-gc/coppice/test/oracle/oracletest"
)

// TestKubernetes plays the scripts of requests. With -rewrite it records their outputs.
func TestKubernetes(t *testing.T) {
	k := startKubernetes(t)
	play(t, "requests", oracletest.Version(t, "k8s.io/apiextensions-apiserver"), func(*testing.T) oracle.Server { return k })
}

// TestCollector plays the scripts of the garbage collector. Each script has a collector of
// its own, because a collector retries failed objects for ever, and this delays the objects
// of later scripts.
func TestCollector(t *testing.T) {
	play(t, "collector", oracletest.Version(t, "k8s.io/kubernetes"), func(t *testing.T) oracle.Server {
		t.Helper()
		return startCollected(t)
	})
}

func play(t *testing.T, scripts, version string, serve func(*testing.T) oracle.Server) {
	t.Helper()
	datadriven.Walk(t, "../../internal/oracle/testdata/"+scripts, func(t *testing.T, path string) {
		t.Helper()
		name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		script := oracle.New(name, serve(t), version)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			out, err := script.Run(t.Context(), d)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			input, err := oracle.ParseInput(d.Input)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			recorded := input.Recorded(out)
			if recorded != out {
				t.Logf("%s: another order than the recorded one", d.Pos)
			}
			return recorded
		})
		if !script.Done() {
			t.Errorf("%s does not end with 'recorded'", path)
		}
	})
}
