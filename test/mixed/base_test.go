// Package mixed_test keeps the commit that tests of mixed versions start older programs
// from.
package mixed_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/test/internal/module"
)

// The file BASE names the commit at which the SDK and the request messages were frozen:
// see docs/versioning.md. A later test builds processors, finalizers and clients of that
// commit, so the commit must stay in the history of this one.
func TestBase(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("BASE")
	if err != nil {
		t.Fatal(err)
	}
	base := strings.TrimSuffix(string(data), "\n")
	if !regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(base) {
		t.Fatalf("BASE has %q, want the 40 hexadecimal digits of a commit", data)
	}
	root, err := module.Root()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("git"); err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("%v: CI must install git; see .ci/run", err)
	}
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", root}, args...)...).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	// A source archive has no history, and a shallow clone lacks old commits. Both may be
	// what CI was given, so the test does not fail there.
	switch shallow, err := git("rev-parse", "--is-shallow-repository"); {
	case err != nil:
		t.Skipf("no git history to look in: %v: %s", err, shallow)
	case shallow == "true":
		t.Skip("the repository is a shallow clone")
	}
	if kind, err := git("cat-file", "-t", base); err != nil || kind != "commit" {
		t.Fatalf("BASE names %s, which is no commit of this repository: %s", base, kind)
	}
	if out, err := git("merge-base", "--is-ancestor", base, "HEAD"); err != nil {
		t.Errorf("BASE names %s, which is not in the history of HEAD: %s", base, out)
	}
}
