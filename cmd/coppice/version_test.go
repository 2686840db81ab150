package main

import (
	"testing"

	"github.com/nats-io/nats.go/micro"

	"github.com/coppice-gc/coppice/internal/testkit"
)

// A service with the version of each kind of build starts.
func TestVersion(t *testing.T) {
	t.Parallel()
	nc := testkit.Conn(t, testkit.NATS(t), "")
	for module, want := range map[string]string{
		"":                                   "0.1.0-dev",
		"(devel)":                            "0.1.0-dev",
		"v1.2.3":                             "1.2.3",
		"v0.0.0-20261126080258-7da37a399c4c": "0.0.0-20261126080258-7da37a399c4c",
		"v0.0.0-20261126080258-7da37a399c4c+dirty": "0.0.0-20261126080258-7da37a399c4c+dirty",
	} {
		got := versionOf(module)
		if got != want {
			t.Errorf("%q is version %s, want %s", module, got, want)
		}
		s, err := micro.AddService(nc, micro.Config{Name: "test", Version: got})
		if err != nil {
			t.Errorf("%q: %v", module, err)
			continue
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
}
