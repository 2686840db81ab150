package chart

import (
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// Set is a set of values that the tests use.
type Set struct {
	Name   string
	Values map[string]any
}

// Sets returns the default values, and those in the files of testdata.
func Sets(repository string) ([]Set, error) {
	sets := []Set{{Name: "defaults", Values: map[string]any{}}}
	files, err := filepath.Glob(filepath.Join(repository, "test", "kubernetes", "chart", "testdata", "*.yaml"))
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		values, err := ReadValues(f)
		if err != nil {
			return nil, err
		}
		sets = append(sets, Set{Name: strings.TrimSuffix(filepath.Base(f), ".yaml"), Values: values})
	}
	return sets, nil
}

// ReadValues reads a file of values.
func ReadValues(file string) (map[string]any, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	return values, yaml.UnmarshalStrict(text, &values)
}
