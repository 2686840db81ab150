package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/coppice-gc/coppice/tools/image/rootfs"
)

// The bill of materials lists the modules that the program imports on its platform, with the checksums of go.sum, and
// the standard library, and nothing else. It is valid by the schema of CycloneDX.
func TestSBOM(t *testing.T) {
	dir, err := unpacked()
	if err != nil {
		t.Fatal(err)
	}
	schema := cycloneDX(t)
	sums, err := os.ReadFile("../../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	for name, img := range images(t, dir) {
		files := entries(t, img)
		data := files[rootfs.SBOM].data
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); err != nil {
			t.Errorf("%s: the bill of materials is not valid: %v", name, err)
		}
		var bom cdx.BOM
		if err := json.Unmarshal(data, &bom); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range *bom.Components {
			line := c.Name + " " + c.Version
			if c.Name != "stdlib" {
				line += " " + (*c.Properties)[0].Value
			}
			got = append(got, line)
			if want := "pkg:golang/" + c.Name + "@" + strings.ReplaceAll(c.Version, "+", "%2B"); c.PackageURL != want {
				t.Errorf("%s: the package URL of %s is %s", name, c.Name, c.PackageURL)
			}
		}
		want := linked(t, name, string(sums))
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) || len(want) < 40 {
			t.Errorf("%s: the bill of materials has\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		main := bom.Metadata.Component
		if hash := fmt.Sprintf("%x", sha256.Sum256(files[rootfs.Binary].data)); (*main.Hashes)[0].Value != hash {
			t.Errorf("%s: the bill of materials is of a program with the hash %v, not %s", name, *main.Hashes, hash)
		}
		c, err := img.ConfigFile()
		if err != nil || main.Version != c.Config.Labels["org.opencontainers.image.version"] {
			t.Errorf("%s: the bill of materials has the version %s (%v)", name, main.Version, err)
		}
	}
}

// linked returns the modules of the packages that coppice imports on a platform, with version and checksum.
func linked(t *testing.T, name, sums string) []string {
	t.Helper()
	t.Setenv("GOOS", strings.Split(name, "/")[0])
	t.Setenv("GOARCH", strings.Split(name, "/")[1])
	t.Setenv("CGO_ENABLED", "0")
	out, err := run(t.Context(), "../..", "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}", "./cmd/coppice")
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Fields(strings.ReplaceAll(out, " ", "@"))
	slices.Sort(all)
	lines := []string{"stdlib " + strings.TrimPrefix(runtime.Version(), "go")}
	for _, m := range slices.Compact(all) {
		module := strings.Replace(m, "@", " ", 1)
		_, rest, ok := strings.Cut("\n"+sums, "\n"+module+" ")
		if !ok {
			t.Fatalf("go.sum has no checksum of %s", module)
		}
		checksum, _, _ := strings.Cut(rest, "\n")
		lines = append(lines, module+" "+checksum)
	}
	return lines
}

// cycloneDX returns the schema of CycloneDX 1.6, which the Go library of CycloneDX has among its tests.
func cycloneDX(t *testing.T) *jsonschema.Schema {
	t.Helper()
	dir, err := run(t.Context(), "", "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go")
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	for _, file := range []string{"bom-1.6.schema.json", "jsf-0.82.schemax.json", "spdx.schema.json"} {
		data, err := os.ReadFile(filepath.Join(dir, "schema", file))
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		id, _ := value.(map[string]any)["$id"].(string)
		if err := compiler.AddResource(id, value); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := compiler.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// The certificates of the image are roots, without those that are trusted under a condition.
func TestCertificates(t *testing.T) {
	i := slices.IndexFunc(rootfs.Base(), func(f rootfs.File) bool { return f.Name == rootfs.Certificates })
	rest := rootfs.Base()[i].Data
	pool, n := x509.NewCertPool(), 0
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if !c.IsCA || c.NotAfter.Before(time.Unix(1_790_000_000, 0)) {
			t.Errorf("%s is no authority, or expired at %v", c.Subject, c.NotAfter)
		}
		pool.AddCert(c)
		n++
	}
	if n < 100 {
		t.Errorf("the image has %d certificates", n)
	}
}
