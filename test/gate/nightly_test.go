package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// .ci/nightly runs, and its list has just the steps for which it has a function.
func TestNightlySteps(t *testing.T) {
	t.Parallel()
	const script = "../../.ci/nightly"
	out, err := exec.Command(script, "--list").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	source, err := os.ReadFile(script)
	must.Succeed(t, err)
	listed := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		m := regexp.MustCompile(`^([a-z0-9]+) +[0-9]+ min  \S`).FindStringSubmatch(line)
		if m == nil {
			t.Errorf("%q is no step", line)
			continue
		}
		listed[m[1]] = true
	}
	for _, m := range regexp.MustCompile(`(?m)^step_([a-z0-9]+)\(\)`).FindAllStringSubmatch(string(source), -1) {
		if !listed[m[1]] {
			t.Errorf("the step %s is not listed", m[1])
		}
		delete(listed, m[1])
	}
	for name := range listed {
		t.Errorf("there is no function step_%s", name)
	}
}
