package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/semver"

	"github.com/coppice-gc/coppice/tools/image/rootfs"
)

// A checkout is a fresh clone of the commit that the image is built from. Go takes the version of a program from the
// tags of the repository that it builds in: the clone has the tag of the version, and the user's repository gets none.
// Files that are not committed are not in it, so that the commit, the version and the release of Go alone decide what
// is built.
type checkout struct {
	dir      string
	revision string
	time     time.Time // of the commit
	version  string    // that the program must have; empty for what Go derives
	changed  bool      // whether the user's work tree has changes that are not committed
}

// clone makes the checkout of HEAD of the repository source below dir. version may be empty.
func clone(ctx context.Context, source, dir, version string) (*checkout, error) {
	if version != "" {
		version = "v" + strings.TrimPrefix(version, "v")
		if !semver.IsValid(version) || semver.Canonical(version) != version {
			return nil, fmt.Errorf("-version %s: want a semantic version without build metadata, such as 1.2.3 or 1.2.3-rc.1", version[1:])
		}
	}
	c := &checkout{dir: filepath.Join(dir, "src"), version: strings.TrimPrefix(version, "v")}
	revision, err := run(ctx, source, "git", "rev-parse", "HEAD")
	if err != nil {
		return nil, fmt.Errorf("the image is built from a commit, and %s is no git repository with one: %w", source, err)
	}
	c.revision = revision
	seconds, err := run(ctx, source, "git", "log", "-1", "--format=%ct", revision)
	if err != nil {
		return nil, err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the time of the commit: %w", err)
	}
	c.time = time.Unix(unix, 0).UTC()
	status, err := run(ctx, source, "git", "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	c.changed = status != ""

	args := []string{"clone", "--quiet"}
	if version != "" {
		// Without other tags: of several at one commit, Go takes the highest version.
		args = append(args, "--no-tags")
		if tagged, err := run(ctx, source, "git", "rev-parse", "--quiet", "--verify", "refs/tags/"+version+"^{commit}"); err == nil && tagged != revision {
			return nil, fmt.Errorf("-version %s: the tag %s is at the commit %s, and HEAD is %s: check out the tag, or choose another version", c.version, version, tagged, revision)
		}
	}
	if _, err := run(ctx, "", "git", append(args, source, c.dir)...); err != nil {
		return nil, err
	}
	if _, err := run(ctx, c.dir, "git", "checkout", "--quiet", "--detach", revision); err != nil {
		return nil, err
	}
	if version != "" {
		if _, err := run(ctx, c.dir, "git", "-c", "tag.gpgSign=false", "tag", version); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// program builds coppice for a platform into a file, and returns what the program says about its build.
func (c *checkout) program(ctx context.Context, p platform, file string) (*debug.BuildInfo, error) {
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", file, "./cmd/coppice") //nolint:gosec // the file is in a directory of our own
	build.Dir = c.dir
	// The user's settings of Go for builds have no effect; those for downloads do.
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=-mod=readonly", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off", "PWD="+c.dir)
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build coppice for %s: %w\n%s", p, err, out)
	}
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, err
	}
	want := c.version
	if want == "" {
		want = rootfs.Version(info)
	}
	return info, rootfs.Check(info, want, c.revision)
}

// run returns what a command prints, without space around it.
func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // git, or go in tests
	cmd.Dir = dir
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
