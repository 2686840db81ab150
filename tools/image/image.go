package main

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/coppice-gc/coppice/tools/image/rootfs"
)

// config returns what the image says about its containers. It equals what the Dockerfile says: a test compares them.
func config(version, revision string) v1.Config {
	user := strconv.Itoa(rootfs.User)
	return v1.Config{
		User:       user + ":" + user,
		Env:        []string{"PATH=/usr/bin", "COPPICE_DATA=/" + rootfs.Data},
		Entrypoint: []string{"coppice"},
		Volumes:    map[string]struct{}{"/" + rootfs.Data: {}},
		WorkingDir: "/",
		ExposedPorts: map[string]struct{}{
			"4222/tcp": {}, "9440/tcp": {}, "9441/tcp": {}, "9442/tcp": {}, "9443/tcp": {},
		},
		Healthcheck: &v1.HealthConfig{
			Test:        []string{"CMD", "coppice", "ready"},
			Interval:    10 * time.Second,
			Timeout:     5 * time.Second,
			StartPeriod: time.Minute,
			Retries:     3,
		},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "coppice",
			"org.opencontainers.image.description": "A garbage collector for resources outside of Kubernetes",
			"org.opencontainers.image.source":      "https://github.com/coppice-gc/coppice",
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.version":     version,
			"org.opencontainers.image.revision":    revision,
		},
	}
}

// image returns the image of one platform. Its media types are those of Docker, not those of OCI: podman ignores the
// health check of an image that has the latter, in whose specification it is not.
func image(p platform, created time.Time, c v1.Config, files []rootfs.File) (v1.Image, error) {
	steps := []struct {
		files []rootfs.File
		what  string
	}{
		{rootfs.Base(), "certificates, user, directories"},
		{files, "program, bill of materials, license"},
	}
	var layers []mutate.Addendum
	for _, s := range steps {
		data, err := layer(s.files, created)
		if err != nil {
			return nil, err
		}
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
			tarball.WithMediaType(types.DockerLayer), tarball.WithCompressedCaching)
		if err != nil {
			return nil, err
		}
		layers = append(layers, mutate.Addendum{Layer: l, History: v1.History{Created: v1.Time{Time: created}, CreatedBy: "tools/image: " + s.what}})
	}
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: p.os, Architecture: p.arch, Created: v1.Time{Time: created}, Config: c, RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(img, layers...)
}

// layer returns files as a tar archive.
func layer(files []rootfs.File, created time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.Name, Size: int64(len(f.Data)), Mode: int64(f.Mode.Perm()),
			Uid: f.Owner, Gid: f.Owner, ModTime: created, Format: tar.FormatUSTAR,
		}
		if f.Mode.IsDir() {
			h.Typeflag, h.Name = tar.TypeDir, f.Name+"/"
		}
		if f.Mode&fs.ModeSticky != 0 {
			h.Mode |= 0o1000
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.Data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return slices.Clip(out.Bytes()), err
}
