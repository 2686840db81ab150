package chart_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/test/kubernetes/chart"
)

// TestNATS compares the values for NATS' chart with the settings of deploy/nats/coppice.conf
// that it replaces: those of 'coppice nats-config' are for a single server, and the chart writes
// each as a whole, also if it has others in it.
func TestNATS(t *testing.T) {
	values, err := chart.ReadValues(filepath.Join(repository, "deploy", "helm", "nats.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(repository, "deploy", "nats", "coppice.conf"))
	if err != nil {
		t.Fatal(err)
	}
	settings, _, _ := strings.Cut(string(text), "\naccounts {")
	merged, _ := at(values, []string{"config", "merge"})
	names := regexp.MustCompile(`(?m)^(\w+)`).FindAllString(settings, -1)
	slices.Sort(names)
	// The chart of NATS writes a jetstream of its own, a server_name, and the port.
	if want := []string{"jetstream", "listen", "max_payload", "max_pending", "server_name"}; !slices.Equal(names, want) {
		t.Errorf("settings %v, want %v", names, want)
	}
	if m := merged.(map[string]any); len(m) != 2 || m["$include"] == nil || m["listen"] != "0.0.0.0:4222" {
		t.Errorf("merged: %v", m)
	}
	jetstream := regexp.MustCompile(`(?m)^  (\w+): (.*)$`).FindAllStringSubmatch(settings, -1)
	for _, m := range jetstream {
		if have, _ := at(values, []string{"config", "jetstream", "merge", m[1]}); m[1] != "store_dir" && have != m[2] {
			t.Errorf("%s: %v, want %s", m[1], have, m[2])
		}
	}
	if len(jetstream) != 2 {
		t.Errorf("jetstream: %v", jetstream)
	}
	// Streams with replicas are in memory: internal/bus.WorkConfigs.
	if on, _ := at(values, []string{"config", "jetstream", "memoryStore", "enabled"}); on != true {
		t.Error("no memory for streams")
	}
	servers, _ := at(values, []string{"config", "cluster", "replicas"})
	if replicas, _ := at(defaults(t), []string{"streamReplicas"}); servers != replicas {
		t.Errorf("%v servers for streams with %v replicas", servers, replicas)
	}
}
