// Package release_test builds what .goreleaser.yaml describes, in clones of HEAD with a tag, and checks the files.
package release_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// version is one that Go records: a module whose path has no suffix has only the versions v0 and v1.
const version = "1.2.3"

var (
	// subset are the platforms of a snapshot with RELEASE_SUBSET, and others those that only a release has.
	subset = []string{"linux_amd64", "windows_amd64"}
	others = []string{"darwin_amd64", "darwin_arm64", "linux_arm64"}
)

// A release has all platforms; a snapshot of the same commit, in another directory and time zone, has the same bytes.
func TestRelease(t *testing.T) {
	goreleaser := filepath.Join(t.TempDir(), "goreleaser")
	output(t, ".", []string{"CGO_ENABLED=0"}, "go", "build", "-o", goreleaser, "github.com/goreleaser/goreleaser/v2")

	clone, commit := tagged(t)
	output(t, clone, nil, goreleaser, "check")
	output(t, clone, nil, goreleaser, "release", "--clean", "--skip=publish,announce", "--parallelism=2")
	released := published(t, filepath.Join(clone, "dist"))
	packages := []string{
		"coppice-" + version + "-1.aarch64.rpm", "coppice-" + version + "-1.x86_64.rpm",
		"coppice_" + version + "-1_amd64.deb", "coppice_" + version + "-1_arm64.deb",
	}
	if want, got := sorted(names(version, slices.Concat(subset, others)), packages), slices.Sorted(maps.Keys(released)); !slices.Equal(got, want) {
		t.Errorf("checksums.txt lists\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, platform := range slices.Concat(subset, others) {
		check(t, released, platform, commit)
	}

	clone, _ = tagged(t)
	zone := []string{"RELEASE_SUBSET=1", "TZ=Asia/Kolkata", "ZONEINFO=" + filepath.Join(strings.TrimSpace(output(t, ".", nil, "go", "env", "GOROOT")), "lib", "time", "zoneinfo.zip")}
	output(t, clone, zone, goreleaser, "release", "--snapshot", "--clean", "--parallelism=2")
	snapshot := published(t, filepath.Join(clone, "dist"))
	name := version + "-SNAPSHOT-" + strings.TrimSpace(output(t, clone, nil, "git", "rev-parse", "--short", "HEAD"))
	packages = slices.DeleteFunc(packages, func(name string) bool { return strings.Contains(name, "arm64") || strings.Contains(name, "aarch64") })
	if want, got := sorted(names(name, subset), packages), slices.Sorted(maps.Keys(snapshot)); !slices.Equal(got, want) {
		t.Errorf("checksums.txt of the snapshot lists\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for file, data := range snapshot {
		if of := strings.Replace(file, name, version, 1); !bytes.Equal(data, released[of]) {
			t.Errorf("%s has other bytes than %s: see what differs in the archives with diffoscope", file, of)
		}
	}
}

// tagged clones HEAD and tags it.
func tagged(t *testing.T) (clone, commit string) {
	t.Helper()
	clone = filepath.Join(t.TempDir(), "coppice")
	output(t, "../..", nil, "git", "clone", "--quiet", "--no-tags", ".", clone)
	output(t, clone, nil, "git", "-c", "tag.gpgSign=false", "tag", "v"+version)
	return clone, strings.TrimSpace(output(t, clone, nil, "git", "rev-parse", "HEAD"))
}

// output returns what a program prints in a directory, with these variables in addition. With GOFLAGS of the nightly
// checks, Go does not record versions: the configuration sets what it needs.
func output(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir = dir
	c.Env = append(c.Environ(), env...)
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", c, err, out, errs.String())
	}
	return string(out)
}

// names returns the files of platforms.
func names(version string, platforms []string) (all []string) {
	for _, platform := range platforms {
		all = append(all, archiveOf(version, platform), "coppice_"+version+"_"+platform+".cdx.json")
	}
	return all
}

func archiveOf(version, platform string) string {
	if strings.HasPrefix(platform, "windows_") {
		return "coppice_" + version + "_" + platform + ".zip"
	}
	return "coppice_" + version + "_" + platform + ".tar.gz"
}

func sorted(lists ...[]string) []string { return slices.Sorted(slices.Values(slices.Concat(lists...))) }

// published returns the files that checksums.txt lists, by their names. Packages are not in dist.
func published(t *testing.T, dist string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for line := range strings.Lines(string(read(t, filepath.Join(dist, "checksums.txt")))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		path := filepath.Join(dist, name)
		if strings.HasSuffix(name, ".deb") || strings.HasSuffix(name, ".rpm") {
			path = filepath.Join(dist, "..", "bin", "release", "packages", name)
		}
		files[name] = read(t, path)
		if is := fmt.Sprintf("%x", sha256.Sum256(files[name])); is != sum {
			t.Errorf("%s has the SHA-256 %s, and checksums.txt has %s", name, is, sum)
		}
	}
	return files
}

// check compares the archive and the bill of materials of a platform with what they should be.
func check(t *testing.T, released map[string][]byte, platform, commit string) {
	t.Helper()
	archive, program := archiveOf(version, platform), "coppice"
	if strings.HasPrefix(platform, "windows_") {
		program = "coppice.exe"
	}
	files := unpack(t, archive, released[archive])
	for _, name := range []string{
		program, "LICENSE", "README.md", "CHANGELOG.md", "examples/realm-settings.yaml",
		"man/man1/coppice.1", "man/man1/coppice-delete.1", "completions/coppice.bash", "completions/coppice.fish", "completions/coppice.zsh",
	} {
		if len(files[name]) == 0 {
			t.Errorf("%s does not have %s", archive, name)
		}
	}
	if page := string(files["man/man1/coppice.1"]); !strings.Contains(page, "coppice "+version) {
		t.Errorf("%s: the manual page is not of version %s: %.200s", archive, version, page)
	}

	var bill struct {
		Metadata struct {
			Component struct {
				Version            string
				Hashes, Properties []struct{ Content, Name, Value string }
			}
		}
		Components []struct{ Name string }
	}
	name := "coppice_" + version + "_" + platform + ".cdx.json"
	if err := json.Unmarshal(released[name], &bill); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	system, arch, _ := strings.Cut(platform, "_")
	of := bill.Metadata.Component
	says := map[string]string{"version": of.Version, "modules": fmt.Sprint(len(bill.Components) > 40)}
	for _, p := range of.Properties {
		says[p.Name] = p.Value
	}
	for _, h := range of.Hashes {
		says["hash"] = h.Content
	}
	want := map[string]string{
		"version": version, "modules": "true", "hash": fmt.Sprintf("%x", sha256.Sum256(files[program])),
		"go:build:GOOS": system, "go:build:GOARCH": arch, "go:build:CGO_ENABLED": "0", "go:build:vcs.revision": commit,
	}
	if !maps.Equal(says, want) {
		t.Errorf("%s has %v, want %v", name, says, want)
	}
	if platform == runtime.GOOS+"_"+runtime.GOARCH {
		run(t, files[program], commit)
	}
}

// run runs the program of this platform, which must say what it was built from.
func run(t *testing.T, program []byte, commit string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "coppice")
	if err := os.WriteFile(file, program, 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	var says map[string]any
	if err := json.Unmarshal([]byte(output(t, ".", nil, file, "version", "-o", "json")), &says); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{"version": version, "commit": commit, "dirty": false, "platform": runtime.GOOS + "/" + runtime.GOARCH} {
		if says[key] != want {
			t.Errorf("the program says %s %v, want %v", key, says[key], want)
		}
	}
}

// unpack returns the files of an archive. All belong to root, and only the program can be run.
func unpack(t *testing.T, name string, data []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	add := func(file string, mode fs.FileMode, r io.Reader) {
		t.Helper()
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatalf("%s: %s: %v", name, file, err)
		}
		files[file] = content
		want := fs.FileMode(0o644)
		if file == "coppice" || file == "coppice.exe" {
			want = 0o755
		}
		if mode != want {
			t.Errorf("%s: %s has the mode %v, want %v", name, file, mode, want)
		}
	}
	if strings.HasSuffix(name, ".zip") {
		r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, f := range r.File {
			content, err := f.Open()
			if err != nil {
				t.Fatalf("%s: %s: %v", name, f.Name, err)
			}
			add(f.Name, f.Mode(), content)
		}
		return files
	}
	compressed, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for r := tar.NewReader(compressed); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if h.Uname != "root" || h.Gname != "root" || h.Uid != 0 || h.Gid != 0 {
			t.Errorf("%s: %s belongs to %s:%s (%d:%d)", name, h.Name, h.Uname, h.Gname, h.Uid, h.Gid)
		}
		add(h.Name, h.FileInfo().Mode(), r)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
