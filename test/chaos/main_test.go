// Package chaos_test tests the guarantees while processes are killed at the worst moment or
// suspended, and while NATS loses or delays their messages.
//
// Services and NATS servers run as processes of their own: the test binary, executed again
// (child_test.go, member_test.go). TestCluster has three NATS servers and a schedule of faults
// (faults_test.go); `make chaos` runs it for hours and records each schedule in runs.tsv.
// An auditor (audit_test.go) checks the outcome from the log alone. It folds the log by its
// documented encoding, without the code that is tested.
package chaos_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
)

const realm = bus.DefaultRealm

var (
	deployments = client.Resource{Group: "apps", Plural: "deployments"}
	replicaSets = client.Resource{Group: "apps", Plural: "replicasets"}
	pods        = client.Resource{Plural: "pods"}
	configMaps  = client.Resource{Plural: "configmaps"}
)

var (
	kills = flag.Int("kills", 7, "how often TestCrash kills, in all")
	seed  = nightly.SeedFlag("seed", "what TestCrash draws from when it kills, and the first schedule of TestCluster")
)

func TestMain(m *testing.M) {
	if c := os.Getenv(childEnv); c != "" {
		if err := runChild(c); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testkit.ManyAtOnce()
	testkit.Main(m)
}
