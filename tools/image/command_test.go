package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/tools/image/rootfs"
)

// repository makes a git repository with a small program in place of coppice, and one commit.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":              "module github.com/coppice-gc/coppice\n\ngo 1.26.0\n",
		"LICENSE":             "license\n",
		"cmd/coppice/main.go": "package main\n\nfunc main() {}\n",
	} {
		put(t, filepath.Join(dir, name), text)
	}
	git(t, dir, "init", "--quiet", "--initial-branch=main")
	commit(t, dir)
	return dir
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	if _, err := run(t.Context(), dir, "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...); err != nil {
		t.Fatal(err)
	}
}

func commit(t *testing.T, dir string) {
	t.Helper()
	git(t, dir, "add", ".")
	git(t, dir, "commit", "--quiet", "-m", "commit")
}

// written builds the archive of a repository for one platform, and returns what the program says that its version is,
// the label, and what the command printed.
func written(t *testing.T, dir string, args ...string) (program, label, printed string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "c.tar")
	var out bytes.Buffer
	if err := command(t.Context(), append([]string{"-o", file, "-source", dir, "-platform", "linux/amd64"}, args...), &out, &out); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	layout, err := unpack(file, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	img := images(t, layout)["linux/amd64"]
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	info, err := readInfo(entries(t, img)[rootfs.Binary].data)
	if err != nil {
		t.Fatal(err)
	}
	return info.Main.Version, c.Config.Labels["org.opencontainers.image.version"], out.String()
}

// The version of the program is that of the label: the given one, or the one that Go derives.
func TestVersion(t *testing.T) {
	dir := repository(t)
	if program, label, _ := written(t, dir); !strings.HasPrefix(program, "v0.0.0-") || label != program[1:] {
		t.Errorf("without a tag the program has the version %s, the label %s", program, label)
	}
	for _, args := range [][]string{{"-version", "1.2.3"}, {"-version", "v1.2.3"}} {
		if program, label, out := written(t, dir, args...); program != "v1.2.3" || label != "1.2.3" || !strings.Contains(out, "localhost/coppice:1.2.3") {
			t.Errorf("%v: the program has the version %s, the label %s: %s", args, program, label, out)
		}
	}
	git(t, dir, "tag", "v1.4.0")
	git(t, dir, "tag", "v1.5.0-rc.1")
	if program, label, _ := written(t, dir); program != "v1.5.0-rc.1" || label != "1.5.0-rc.1" {
		t.Errorf("with two tags the program has the version %s, the label %s", program, label)
	}
	// The version asked for is not that of the highest tag.
	if program, label, _ := written(t, dir, "-version", "1.4.0"); program != "v1.4.0" || label != "1.4.0" {
		t.Errorf("the program has the version %s, the label %s", program, label)
	}
	// Another commit gets the version that an earlier one was built with, and not its program.
	put(t, filepath.Join(dir, "cmd/coppice/main.go"), "package main\n\nfunc main() { println() }\n")
	commit(t, dir)
	if program, label, _ := written(t, dir, "-version", "1.2.3"); program != "v1.2.3" || label != "1.2.3" {
		t.Errorf("the program has the version %s, the label %s", program, label)
	}
	if tags, err := run(t.Context(), dir, "git", "tag"); err != nil || tags != "v1.4.0\nv1.5.0-rc.1" {
		t.Errorf("the repository has the tags %q (%v)", tags, err)
	}
}

// What is not committed is not in the image, and the command says so.
func TestUncommitted(t *testing.T) {
	dir := repository(t)
	if _, _, out := written(t, dir); strings.Contains(out, "note:") {
		t.Errorf("printed without a change: %s", out)
	}
	put(t, filepath.Join(dir, "cmd/coppice/main.go"), "no program\n")
	if program, _, out := written(t, dir, "-version", "1.2.3"); program != "v1.2.3" || !strings.Contains(out, "without changes that are not committed") {
		t.Errorf("the program has the version %s, and the command printed %s", program, out)
	}
}

// SOURCE_DATE_EPOCH sets the time of all files.
func TestSourceDateEpoch(t *testing.T) {
	dir := repository(t)
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	file := filepath.Join(t.TempDir(), "c.tar")
	var out bytes.Buffer
	if err := command(t.Context(), []string{"-o", file, "-source", dir, "-platform", "linux/arm64"}, &out, &out); err != nil {
		t.Fatal(err)
	}
	layout, err := unpack(file, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	img := images(t, layout)["linux/arm64"]
	c, err := img.ConfigFile()
	if err != nil || c.Created.Unix() != 1_700_000_000 {
		t.Errorf("the image has the time %v (%v)", c.Created, err)
	}
	for name, e := range entries(t, img) {
		if e.ModTime.Unix() != 1_700_000_000 {
			t.Errorf("%s has the time %v", name, e.ModTime)
		}
	}
}

// What cannot be built is refused with the reason and what to do, and leaves no file.
func TestRefused(t *testing.T) {
	dir := repository(t)
	git(t, dir, "tag", "v1.4.0")
	put(t, filepath.Join(dir, "new"), "")
	commit(t, dir)
	broken := repository(t)
	put(t, filepath.Join(broken, "cmd/coppice/main.go"), "package main\n\nfunc main() { none() }\n")
	commit(t, broken)
	for _, c := range []struct {
		args []string
		env  string
		want string
	}{
		{[]string{"-platform", "linux/riscv64"}, "", `"linux/riscv64": choose from linux/amd64 and linux/arm64`},
		{[]string{"-platform", ""}, "", `choose from`},
		{[]string{"-version", "1.2"}, "", "-version 1.2: want a semantic version"},
		{[]string{"-version", "1.2.3+dirty"}, "", "want a semantic version without build metadata"},
		{[]string{"-version", "2.0.0"}, "", "not 2.0.0"}, // this module has the major versions 0 and 1
		{[]string{"-version", "1.4.0"}, "", "check out the tag, or choose another version"},
		{[]string{"-source", t.TempDir()}, "", "no git repository"},
		{[]string{"-source", broken}, "", "undefined: none"},
		{[]string{"-o", filepath.Join(dir, "none", "c.tar")}, "", "does not exist"},
		{[]string{"more"}, "", `unexpected argument "more"`},
		{nil, "yesterday", "SOURCE_DATE_EPOCH=yesterday: want seconds"},
	} {
		out := t.TempDir()
		t.Setenv("SOURCE_DATE_EPOCH", c.env)
		args := append([]string{"-o", filepath.Join(out, "c.tar"), "-source", dir, "-platform", "linux/amd64"}, c.args...)
		err := command(context.Background(), args, &bytes.Buffer{}, &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
		if left, err := os.ReadDir(out); err != nil || len(left) > 0 {
			t.Errorf("%v leaves %v (%v)", c.args, left, err)
		}
	}
}
