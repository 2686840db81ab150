// Package containers_test builds the container image in both ways, and runs it with podman.
package containers_test

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/tools/image/engine"
)

// The version of the images that the tests build.
const version = "1.2.3-test.1"

// Names of the images: of the archive, as it is loaded, and of the Dockerfile.
const (
	archived = "localhost/coppice:" + version
	docker   = "localhost/coppice:dockerfile"
)

// The repository.
const root = "../../.."

func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// images builds and runs images.
type images struct{ *engine.Engine }

func newImages(t *testing.T) *images {
	t.Helper()
	return &images{engine.New(t, 15*time.Minute)}
}

// load builds the archive and loads it.
func (e *images) load(t *testing.T) {
	t.Helper()
	file := filepath.Join(e.Dir, "coppice.tar")
	output(t, root, "go", "run", "./deploy/image", "-o", file, "-version", version)
	e.Podman(t, "load", "--input", file)
}

// build builds the Dockerfile from a clone of the repository. No registry is needed: the image that the Dockerfile
// begins with is made here, and has Go, git and all else from the machine, whose directories are mounted while it builds.
func (e *images) build(t *testing.T) {
	t.Helper()
	context := filepath.Join(e.Dir, "context")
	output(t, root, "git", "clone", "--quiet", ".", context)
	// What .dockerignore leaves out must not get into the image, nor make git call the work tree changed.
	if err := os.WriteFile(filepath.Join(context, "coppice.tar"), []byte("an earlier archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(context, "deploy/docker/Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	base := regexp.MustCompile(`(?m)^ARG GO_IMAGE=(\S+)$`).FindSubmatch(text)
	if base == nil {
		t.Fatal("the Dockerfile names no image with Go")
	}
	e.base(t, string(base[1]))
	output(t, root, "go", "mod", "download")
	output(t, "..", "go", "mod", "download")
	args := []string{"build", "--pull-never", "--network", "none", "--format", "docker", "--identity-label=false", "--tag", docker,
		"--file", "deploy/docker/Dockerfile", "--build-arg", "VERSION=" + version, "--build-arg", "REVISION=" + output(t, root, "git", "rev-parse", "HEAD")}
	for dir, at := range map[string]string{"/usr": "/usr", env(t, "GOROOT"): "/toolchain", env(t, "GOMODCACHE"): "/go/pkg/mod"} {
		args = append(args, "--volume", dir+":"+at+":ro")
	}
	build := e.Command("buildah", append(args, "--volume", env(t, "GOCACHE")+":/root/.cache/go-build", ".")...)
	build.Dir = context
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the Dockerfile: %v\n%s", err, out)
	}
}

// env returns a setting of Go.
func env(t *testing.T, name string) string {
	t.Helper()
	return output(t, root, "go", "env", name)
}

// base makes the stand-in for the image with Go: empty directories, links as on a machine whose programs are all in
// /usr, and the variables of the real image.
func (e *images) base(t *testing.T, name string) {
	t.Helper()
	container := e.Buildah(t, "from", "scratch")
	dir := e.Buildah(t, "mount", container)
	for _, d := range []string{"dev", "etc", "go/pkg/mod", "proc", "root/.cache/go-build", "run", "sys", "tmp", "toolchain", "usr", "var"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"bin", "lib", "lib64", "sbin"} {
		if err := os.Symlink("usr/"+d, filepath.Join(dir, d)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "etc/passwd"), []byte("root:x:0:0:root:/root:/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e.Buildah(t, "umount", container)
	e.Buildah(t, "config", "--env", "PATH=/toolchain/bin:/usr/sbin:/usr/bin", "--env", "GOPATH=/go", "--env", "GOTOOLCHAIN=local", container)
	e.Buildah(t, "commit", "--rm", container, name)
}

// The archive and the Dockerfile give images with the same configuration, and the same files, byte by byte.
func TestSameImage(t *testing.T) {
	e := newImages(t)
	e.load(t)
	e.build(t)
	archive, dockerfile := e.inspect(t, archived), e.inspect(t, docker)
	if !reflect.DeepEqual(archive, dockerfile) {
		t.Errorf("the image of the archive has\n%v\nthat of the Dockerfile has\n%v", archive, dockerfile)
	}
	for _, field := range []string{"Healthcheck", "User", "Architecture"} {
		if archive[field] == nil {
			t.Errorf("podman shows no %s of the image", field)
		}
	}
	a, b := e.files(t, archived), e.files(t, docker)
	if !maps.Equal(a, b) || len(a) < 10 {
		t.Errorf("the image of the archive has the files\n%v\nthat of the Dockerfile has\n%v", a, b)
	}
	for _, name := range []string{archived, docker} {
		if got := e.Podman(t, "run", "--rm", "--network", "none", "--no-healthcheck", name, "version"); !strings.HasPrefix(got, "coppice "+version+" ") {
			t.Errorf("%s: coppice version prints %s", name, got)
		}
		e.runs(t, name)
	}
}

// inspect returns what podman knows of an image that two builds must have in common.
func (e *images) inspect(t *testing.T, name string) map[string]any {
	t.Helper()
	var all []map[string]any
	if err := json.Unmarshal([]byte(e.Podman(t, "image", "inspect", name)), &all); err != nil || len(all) != 1 {
		t.Fatalf("podman image inspect %s: %v", name, err)
	}
	common := map[string]any{}
	for _, field := range []string{"Config", "Healthcheck", "User", "Labels", "Architecture", "Os", "Annotations"} {
		common[field] = all[0][field]
	}
	return common
}

// files returns the files of an image: type, mode, owner and checksum of each.
func (e *images) files(t *testing.T, name string) map[string]string {
	t.Helper()
	container := e.Podman(t, "create", "--no-healthcheck", name)
	file := filepath.Join(e.Dir, "export.tar")
	e.Podman(t, "export", "--output", file, container)
	e.Podman(t, "rm", "--volumes", container)
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string]string{}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, r); err != nil {
			t.Fatal(err)
		}
		all[h.Name] = fmt.Sprintf("%c %04o %d:%d %x", h.Typeflag, h.Mode, h.Uid, h.Gid, sum.Sum(nil))
	}
}
