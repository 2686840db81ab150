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

// The file BASE names the commit at which the request messages were frozen, and LOG_BASE the one
// at which the log format was: see docs/versioning.md. Tests in test/processes
// build programs of these commits, so the commits must stay in the history of this one.
func TestBase(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"BASE", "LOG_BASE"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			inHistory(t, file)
		})
	}
}

func inHistory(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	base := strings.TrimSuffix(string(data), "\n")
	if !regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(base) {
		t.Fatalf("%s has %q, want the 40 hexadecimal digits of a commit", file, data)
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
		t.Fatalf("%s names %s, which is no commit of this repository: %s", file, base, kind)
	}
	if out, err := git("merge-base", "--is-ancestor", base, "HEAD"); err != nil {
		t.Errorf("%s names %s, which is not in the history of HEAD: %s", file, base, out)
	}
}
