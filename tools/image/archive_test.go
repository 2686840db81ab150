package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/coppice-gc/coppice/tools/image/rootfs"
)

// temporary is the directory of what several tests share.
var temporary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "coppice-image-test-")
	if err != nil {
		panic(err)
	}
	temporary = dir
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// archive is the image of the commit that is checked out, built once for all tests.
var archive = sync.OnceValues(func() (string, error) {
	file := filepath.Join(temporary, "coppice.tar")
	return file, command(context.Background(), []string{"-o", file}, io.Discard, io.Discard)
})

// unpacked is the directory with the OCI layout of the archive.
var unpacked = sync.OnceValues(func() (string, error) {
	file, err := archive()
	if err != nil {
		return "", err
	}
	return unpack(file, filepath.Join(temporary, "layout"))
})

// unpack unpacks an archive into a directory.
func unpack(file, dir string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir, nil
		}
		if err != nil {
			return "", err
		}
		name := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return "", err
		}
		data, err := io.ReadAll(r)
		if err == nil {
			err = os.WriteFile(name, data, 0o644)
		}
		if err != nil {
			return "", err
		}
	}
}

// images returns the images of a layout by platform, each of which is valid.
func images(t *testing.T, dir string) map[string]v1.Image {
	t.Helper()
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(outer); err != nil {
		t.Errorf("the layout is not valid: %v", err)
	}
	top, err := outer.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(top.Manifests) != 1 || !top.Manifests[0].MediaType.IsIndex() {
		t.Fatalf("the layout has %v, want one index", top.Manifests)
	}
	inner, err := outer.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	list, err := inner.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]v1.Image{}
	for _, d := range list.Manifests {
		img, err := inner.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Image(img); err != nil {
			t.Errorf("the image of %s is not valid: %v", d.Platform, err)
		}
		all[d.Platform.String()] = img
	}
	return all
}

// entry is a file of a layer, and its data.
type entry struct {
	*tar.Header
	data []byte
}

// entries returns the files of an image, by name.
func entries(t *testing.T, img v1.Image) map[string]entry {
	t.Helper()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]entry{}
	for _, l := range layers {
		if mt, err := l.MediaType(); err != nil || mt != types.DockerLayer {
			t.Errorf("a layer has the media type %s (%v)", mt, err)
		}
		r, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		for tr := tar.NewReader(r); ; {
			h, err := tr.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(tr)
			if err != nil {
				t.Fatal(err)
			}
			all[h.Name] = entry{h, data}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// Two builds of a commit give the same bytes, also from a clone elsewhere, with other settings of Go and another umask.
func TestReproducible(t *testing.T) {
	first, err := archive()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := run(t.Context(), "", "git", "clone", "--quiet", "../..", filepath.Join(dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	umask := syscall.Umask(0o077)
	defer syscall.Umask(umask)
	t.Setenv("GOAMD64", "v3")
	t.Setenv("GOFLAGS", "-buildvcs=false -tags=none")
	second := filepath.Join(dir, "coppice.tar")
	if err := command(t.Context(), []string{"-o", second, "-source", filepath.Join(dir, "elsewhere")}, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{".tar", "-linux-amd64.cdx.json", "-linux-arm64.cdx.json"} {
		if a, b := sum(t, strings.TrimSuffix(first, ".tar")+suffix), sum(t, strings.TrimSuffix(second, ".tar")+suffix); a != b {
			t.Errorf("coppice%s differs between two builds: %s, %s", suffix, a, b)
		}
	}
}

func sum(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// The archive is a valid OCI layout with one image for each platform. Its files have these modes and owners, and the
// time of the commit.
func TestFiles(t *testing.T) {
	dir, err := unpacked()
	if err != nil {
		t.Fatal(err)
	}
	commit, err := run(t.Context(), "../..", "git", "log", "-1", "--format=%ct")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"0755 0:0 etc/", "0644 0:0 etc/group", "0644 0:0 etc/passwd", "0755 0:0 etc/ssl/", "0755 0:0 etc/ssl/certs/",
		"0644 0:0 etc/ssl/certs/ca-certificates.crt", "1777 0:0 tmp/", "0755 0:0 usr/", "0755 0:0 usr/bin/", "0755 0:0 usr/bin/coppice",
		"0755 0:0 usr/share/", "0755 0:0 usr/share/doc/", "0755 0:0 usr/share/doc/coppice/", "0644 0:0 usr/share/doc/coppice/LICENSE",
		"0644 0:0 usr/share/doc/coppice/sbom.cdx.json", "0755 0:0 var/", "0755 0:0 var/lib/", "0700 65532:65532 var/lib/coppice/",
	}
	all := images(t, dir)
	for name, machine := range map[string]elf.Machine{"linux/amd64": elf.EM_X86_64, "linux/arm64": elf.EM_AARCH64} {
		img := all[name]
		if img == nil {
			t.Fatalf("no image for %s: %v", name, all)
		}
		files := entries(t, img)
		var got []string
		for _, e := range files {
			got = append(got, fmt.Sprintf("%04o %d:%d %s", e.Mode, e.Uid, e.Gid, e.Name))
			if fmt.Sprint(e.ModTime.Unix()) != commit {
				t.Errorf("%s: %s has the time %v, want that of the commit, %s", name, e.Name, e.ModTime, commit)
			}
		}
		byName := func(a, b string) int { return strings.Compare(strings.Fields(a)[2], strings.Fields(b)[2]) }
		slices.SortFunc(got, byName)
		if !slices.Equal(got, want) {
			t.Errorf("%s has the files\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		checkProgram(t, name, img, files[rootfs.Binary].data, machine)
		next, err := os.ReadFile(filepath.Join(temporary, "coppice-"+strings.ReplaceAll(name, "/", "-")+".cdx.json"))
		if err != nil || !bytes.Equal(next, files[rootfs.SBOM].data) {
			t.Errorf("%s: the bill of materials next to the archive is not the one in the image (%v)", name, err)
		}
	}
	if len(all) != 2 {
		t.Errorf("the archive has images for %d platforms", len(all))
	}
}

// checkProgram checks that a program is static, for its platform, and of the version and the commit of the labels.
func checkProgram(t *testing.T, name string, img v1.Image, program []byte, machine elf.Machine) {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if f.Machine != machine {
		t.Errorf("%s: the program is for %s", name, f.Machine)
	}
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Errorf("%s: the program is not static", name)
	}
	info, err := readInfo(program)
	if err != nil {
		t.Fatal(err)
	}
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c.OS+"/"+c.Architecture != name {
		t.Errorf("%s: the configuration is for %s/%s", name, c.OS, c.Architecture)
	}
	version, revision := c.Config.Labels["org.opencontainers.image.version"], c.Config.Labels["org.opencontainers.image.revision"]
	if version == "" || "v"+version != info.Main.Version || revision == "" || revision != rootfs.Setting(info, "vcs.revision") {
		t.Errorf("%s: the labels say %s, %s; the program %s, %s", name, version, revision, info.Main.Version, rootfs.Setting(info, "vcs.revision"))
	}
	head, err := run(t.Context(), "../..", "git", "rev-parse", "HEAD")
	if err != nil || head != revision {
		t.Errorf("%s: the label says that the commit is %s, want %s (%v)", name, revision, head, err)
	}
	if strings.Contains(info.Main.Version, "dirty") || rootfs.Setting(info, "vcs.modified") != "false" {
		t.Errorf("%s: the program has the version %s", name, info.Main.Version)
	}
}

func readInfo(program []byte) (*debug.BuildInfo, error) {
	return buildinfo.Read(bytes.NewReader(program))
}
