package module_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/test/internal/module"
)

// Dependabot proposes updates for every Go module of the repository: each directory with a
// go.mod is listed in .github/dependabot.yml, and no other.
func TestDependabot(t *testing.T) {
	t.Parallel()
	root, err := module.Root()
	must.Succeed(t, err)
	data, err := os.ReadFile(filepath.Join(root, ".github", "dependabot.yml"))
	must.Succeed(t, err)
	var config struct {
		Updates []struct {
			Ecosystem   string   `yaml:"package-ecosystem"`
			Directories []string `yaml:"directories"`
		} `yaml:"updates"`
	}
	must.Succeed(t, yaml.Unmarshal(data, &config))
	var listed []string
	for _, u := range config.Updates {
		if u.Ecosystem == "gomod" {
			listed = append(listed, u.Directories...)
		}
	}
	var modules []string
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules"):
			return fs.SkipDir
		case d.Name() == "go.mod":
			dir, err := filepath.Rel(root, filepath.Dir(path))
			modules = append(modules, filepath.Join("/", dir))
			return err
		}
		return nil
	})
	must.Succeed(t, err)
	slices.Sort(listed)
	slices.Sort(modules)
	if !slices.Equal(listed, modules) {
		t.Errorf(".github/dependabot.yml lists the modules %q, and the repository has %q", listed, modules)
	}
}
