package rootfs

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
)

// The parts of a CycloneDX document that a program in Go needs.
type (
	document struct {
		Format       string       `json:"bomFormat"`
		SpecVersion  string       `json:"specVersion"`
		Serial       string       `json:"serialNumber"`
		Version      int          `json:"version"`
		Metadata     metadata     `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	metadata struct {
		Timestamp string    `json:"timestamp,omitempty"`
		Component component `json:"component"`
	}
	component struct {
		Type       string     `json:"type"`
		Ref        string     `json:"bom-ref"`
		Name       string     `json:"name"`
		Version    string     `json:"version"`
		Hashes     []hash     `json:"hashes,omitempty"`
		Licenses   []license  `json:"licenses,omitempty"`
		PURL       string     `json:"purl"`
		Properties []property `json:"properties,omitempty"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	license struct {
		License licenseID `json:"license"`
	}
	licenseID struct {
		ID string `json:"id"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	dependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn,omitempty"`
	}
)

// NewSBOM returns the bill of materials of a Go program as a CycloneDX document in JSON: what `go version -m` prints of
// the modules that are linked into the program, and the standard library. The checksum of a module in go.sum is one of
// a list of files, not of one file: it is the property "go:sum".
func NewSBOM(binary []byte) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return nil, fmt.Errorf("read the modules of the program: %w", err)
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	sum := sha256.Sum256(binary)
	main := module(&info.Main)
	main.Type = "application"
	main.Version = Version(info)
	main.Hashes = []hash{{"SHA-256", fmt.Sprintf("%x", sum)}}
	main.Licenses = []license{{licenseID{"Apache-2.0"}}}
	for _, key := range []string{"GOOS", "GOARCH", "CGO_ENABLED", "vcs.revision"} {
		if settings[key] != "" {
			main.Properties = append(main.Properties, property{"go:build:" + key, settings[key]})
		}
	}

	release := strings.TrimPrefix(info.GoVersion, "go")
	library := "pkg:golang/stdlib@" + release
	all := []component{{Type: "library", Ref: library, Name: "stdlib", Version: release, PURL: library}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		all = append(all, module(m))
	}
	slices.SortFunc(all, func(a, b component) int { return strings.Compare(a.Ref, b.Ref) })
	linked := dependency{Ref: main.Ref}
	for _, c := range all {
		linked.DependsOn = append(linked.DependsOn, c.Ref)
	}

	out, err := json.MarshalIndent(document{
		Format: "CycloneDX", SpecVersion: "1.6", Version: 1, Serial: serial(sum),
		Metadata:   metadata{Timestamp: settings["vcs.time"], Component: main},
		Components: all, Dependencies: []dependency{linked},
	}, "", "  ")
	return append(out, '\n'), err
}

// Version returns the version that a program of Coppice prints, as its command version does.
func Version(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return strings.TrimPrefix(v, "v")
	}
	return Development
}

// Development is the version of a program that was built without a git repository.
const Development = "0.1.0-dev"

func module(m *debug.Module) component {
	purl := "pkg:golang/" + m.Path
	if m.Version != "" && m.Version != "(devel)" {
		purl += "@" + strings.ReplaceAll(m.Version, "+", "%2B")
	}
	c := component{Type: "library", Ref: purl, Name: m.Path, Version: m.Version, PURL: purl}
	if m.Sum != "" {
		c.Properties = []property{{"go:sum", m.Sum}}
	}
	return c
}

// serial returns a UUID that follows from the checksum of the program.
func serial(sum [sha256.Size]byte) string {
	id := sum[:16]
	id[6] = id[6]&0x0f | 0x80 // version 8: of the application's own making
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
