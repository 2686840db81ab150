// Package chart renders the chart in deploy/helm/coppice with the code of Helm.
package chart

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

// Namespace is the namespace, and the name of the release, for which the chart is rendered.
const Namespace = "coppice"

// Notes is the name of the text that Helm prints after an installation.
const Notes = "NOTES.txt"

// Dir is the directory of the chart.
func Dir(repository string) string { return filepath.Join(repository, "deploy", "helm", "coppice") }

// Load reads the chart.
func Load(repository string) (*chartv2.Chart, error) { return loader.LoadDir(Dir(repository)) }

// Render returns the files of the chart, by the names of their templates, with values that
// replace those of values.yaml.
func Render(c *chartv2.Chart, values map[string]any) (map[string]string, error) {
	options := common.ReleaseOptions{Name: Namespace, Namespace: Namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(c, values, options, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{Strict: true}.Render(c, all)
	if err != nil {
		return nil, err
	}
	named := map[string]string{}
	for name, text := range files {
		if strings.TrimSpace(text) != "" {
			named[path.Base(name)] = text
		}
	}
	return named, nil
}

// Manifests returns the objects in rendered files, without the notes: YAML documents, in the
// order of the names of the files.
func Manifests(files map[string]string) []string {
	var documents []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name == Notes {
			continue
		}
		for _, document := range strings.Split("\n"+files[name], "\n---\n") {
			var object map[string]any
			if yaml.Unmarshal([]byte(document), &object) == nil && len(object) == 0 {
				continue // comments alone; one that is no YAML is an error of its reader
			}
			documents = append(documents, strings.Trim(document, "\n")+"\n")
		}
	}
	return documents
}

// Plain returns the manifests of the default values for kubectl, with the namespace.
func Plain(repository string) ([]byte, error) {
	c, err := Load(repository)
	if err != nil {
		return nil, err
	}
	files, err := Render(c, nil)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString(header)
	for _, m := range Manifests(files) {
		fmt.Fprintf(&b, "---\n%s", ofHelm.ReplaceAllString(m, ""))
	}
	return b.Bytes(), nil
}

// ofHelm are labels that say that Helm manages an object.
var ofHelm = regexp.MustCompile(`(?m)^ *(helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n`)

const header = `# Coppice on Kubernetes without Helm: README.md says how to use this file. It is the chart deploy/helm/coppice with its default
# values. Do not edit it; run:
#
#   go run -C test/kubernetes ./render
#
apiVersion: v1
kind: Namespace
metadata:
  name: coppice
  labels:
    pod-security.kubernetes.io/enforce: restricted
    pod-security.kubernetes.io/warn: restricted
`
