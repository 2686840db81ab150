package main

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/coppice-gc/coppice/tools/image/rootfs"
)

// Repository is the name that a container engine gives the image when it loads the archive, with the version as the tag.
const Repository = "localhost/coppice"

// build writes the archive, and the bill of materials of each platform next to it.
func build(ctx context.Context, o options, stdout, stderr io.Writer) error {
	if info, err := os.Stat(filepath.Dir(o.output)); err != nil || !info.IsDir() {
		return fmt.Errorf("-o %s: the directory %s does not exist", o.output, filepath.Dir(o.output))
	}
	tmp, err := os.MkdirTemp("", "coppice-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // of temporary files
	src, err := clone(ctx, o.source, tmp, o.version)
	if err != nil {
		return err
	}
	if src.changed {
		if _, err := fmt.Fprintf(stderr, "note: the image is built from the commit %.12s, without changes that are not committed\n", src.revision); err != nil {
			return err
		}
	}
	created, err := o.created(src.time)
	if err != nil {
		return err
	}
	license, err := os.ReadFile(filepath.Join(src.dir, "LICENSE"))
	if err != nil {
		return err
	}

	var version string
	index := mutate.IndexMediaType(empty.Index, types.DockerManifestList)
	var report strings.Builder
	sboms := map[string][]byte{}
	for _, p := range o.platforms {
		file := filepath.Join(tmp, p.arch)
		info, err := src.program(ctx, p, file)
		if err != nil {
			return err
		}
		version = rootfs.Version(info)
		binary, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		files, err := rootfs.Program(binary, license)
		if err != nil {
			return err
		}
		img, err := image(p, created, config(version, src.revision), files)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}},
		})
		sbom := sbomFile(o.output, p)
		for _, f := range files {
			if f.Name == rootfs.SBOM {
				sboms[sbom] = f.Data
			}
		}
		digest, err := img.Digest()
		if err != nil {
			return err
		}
		fmt.Fprintf(&report, "%-11s %s  %s\n", p, digest, sbom)
	}
	name := Repository + ":" + strings.ReplaceAll(version, "+", "_") // a tag has no plus sign
	if err := write(o.output, filepath.Join(tmp, "layout"), index, name, created); err != nil {
		return err
	}
	for file, data := range sboms {
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return err
		}
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s%-11s %s  %s  %s\n", report.String(), "index", digest, o.output, name)
	return err
}

// sbomFile returns the name of the bill of materials of a platform: coppice-linux-amd64.cdx.json for coppice.tar.
func sbomFile(output string, p platform) string {
	return strings.TrimSuffix(output, filepath.Ext(output)) + "-" + p.os + "-" + p.arch + ".cdx.json"
}

// write writes an index as an OCI archive: an OCI layout, made in the directory dir, in a tar file. The file exists
// only when it is complete.
func write(output, dir string, index v1.ImageIndex, name string, created time.Time) error {
	outer := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
		Add: index,
		Descriptor: v1.Descriptor{Annotations: map[string]string{
			"org.opencontainers.image.ref.name": name, // read by podman, skopeo
			"io.containerd.image.name":          name, // read by docker, containerd
		}},
	})
	if _, err := layout.Write(dir, outer); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(output), filepath.Base(output)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // it is gone when all is well
	w := tar.NewWriter(f)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return add(w, dir, path, created)
	})
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = f.Chmod(0o644)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), output)
}

// add adds a file of a layout to an archive.
func add(w *tar.Writer, dir, path string, created time.Time) error {
	name, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: filepath.ToSlash(name), Size: info.Size(), Mode: 0o644, ModTime: created, Format: tar.FormatUSTAR,
	}); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}
