// Package mixed_test keeps the commit that tests of mixed versions start older programs
// from.
package mixed_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
	"github.com/coppice-gc/coppice/test/internal/module"
)

// The file BASE names the commit at which the request messages were frozen, LOG_BASE the one at which the log format
// was, and EARLY_BASE one before that, whose log this version continues: see docs/versioning.md and docs/upgrade.md.
var files = []string{"BASE", "LOG_BASE", "EARLY_BASE"}

func TestBase(t *testing.T) {
	t.Parallel()
	for _, file := range files {
		base(t, file)
	}
}

// base returns the commit in a file.
func base(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	must.Succeed(t, err)
	base := strings.TrimSuffix(string(data), "\n")
	if !regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(base) {
		t.Fatalf("%s has %q, want the 40 hexadecimal digits of a commit", file, data)
	}
	return base
}

// Tests in test/processes build programs of these commits, so the commits must stay in the history
// of this one.
func TestBaseInHistory(t *testing.T) {
	nightly.Test(t, nightly.History)
	t.Parallel()
	for _, file := range files {
		inHistory(t, file)
	}
}

func inHistory(t *testing.T, file string) {
	t.Helper()
	base := base(t, file)
	root, err := module.Root()
	must.Succeed(t, err)
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", root}, args...)...).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	if kind, err := git("cat-file", "-t", base); err != nil || kind != "commit" {
		t.Fatalf("%s names %s, which is no commit of this repository: %s", file, base, kind)
	}
	if out, err := git("merge-base", "--is-ancestor", base, "HEAD"); err != nil {
		t.Errorf("%s names %s, which is not in the history of HEAD: %s", file, base, out)
	}
}
