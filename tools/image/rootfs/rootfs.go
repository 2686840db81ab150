// Package rootfs has the files of Coppice's container image. The archive that this module writes and the Dockerfile
// in deploy/docker both take them from here, so that both images have the same files.
//
// The package imports, outside of the standard library, only the root certificates: a build of the Dockerfile downloads
// no library for container images.
package rootfs

import (
	"bytes"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// User is the id of the user and the group of containers. It is a number, so that Kubernetes can check that it is not
// root.
const User = 65532

// Where the files of the image are.
const (
	Binary       = "usr/bin/coppice"
	SBOM         = "usr/share/doc/coppice/sbom.cdx.json"
	License      = "usr/share/doc/coppice/LICENSE"
	Certificates = "etc/ssl/certs/ca-certificates.crt"
	Data         = "var/lib/coppice"
)

// A File is a file or a directory of the image.
type File struct {
	Name  string      // without a leading slash
	Mode  fs.FileMode // with fs.ModeDir for a directory
	Owner int         // its user and group
	Data  []byte
}

// Base returns the files that are the same for every build, each directory before its files.
func Base() []File {
	const users = "root:x:0:0:root:/:/sbin/nologin\ncoppice:x:65532:65532:coppice:/var/lib/coppice:/sbin/nologin\n"
	const groups = "root:x:0:\ncoppice:x:65532:\n"
	return []File{
		directory("etc"),
		{Name: "etc/group", Mode: 0o644, Data: []byte(groups)},
		{Name: "etc/passwd", Mode: 0o644, Data: []byte(users)},
		directory("etc/ssl"),
		directory("etc/ssl/certs"),
		{Name: Certificates, Mode: 0o644, Data: certificates()},
		{Name: "tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
		directory("usr"),
		directory("var"),
		directory("var/lib"),
		{Name: Data, Mode: fs.ModeDir | 0o700, Owner: User},
	}
}

// Program returns the files that belong to a build: the program, its bill of materials, and the license.
func Program(binary, license []byte) ([]File, error) {
	sbom, err := NewSBOM(binary)
	if err != nil {
		return nil, err
	}
	return []File{
		directory("usr"),
		directory("usr/bin"),
		{Name: Binary, Mode: 0o755, Data: binary},
		directory("usr/share"),
		directory("usr/share/doc"),
		directory("usr/share/doc/coppice"),
		{Name: License, Mode: 0o644, Data: license},
		{Name: SBOM, Mode: 0o644, Data: sbom},
	}, nil
}

func directory(name string) File { return File{Name: name, Mode: fs.ModeDir | 0o755} }

// certificates returns the root certificates of Mozilla's list, in PEM. go.sum fixes them, unlike those of the machine
// that builds. A root that is trusted under a condition alone, such as a last date, is left out: a file of
// certificates cannot say that.
func certificates() []byte {
	var roots [][]byte
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			roots = append(roots, root.Certificate)
		}
	}
	slices.SortFunc(roots, bytes.Compare)
	var out bytes.Buffer
	for _, der := range roots {
		fmt.Fprintf(&out, "# SHA-256 %x\n", sha256.Sum256(der))
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	return out.Bytes()
}
