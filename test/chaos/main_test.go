// Package chaos_test shows that the guarantees stay true while processes are killed at
// the worst moment or suspended, and while NATS loses or delays their messages.
//
// Services run as processes of their own: this test binary, executed again
// (child_test.go). What is believed about the outcome rests on the log alone:
// an auditor (audit_test.go) folds it by its documented encoding, without the
// code that it evaluates.
package chaos_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
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
	seed  = flag.Uint64("seed", 1, "what TestCrash draws from when it kills")
)

func TestMain(m *testing.M) {
	if c := os.Getenv(childEnv); c != "" {
		if err := runChild(c); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testkit.Main(m)
}
