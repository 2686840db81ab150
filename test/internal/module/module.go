// Package module finds the module that a command of its own tests runs in.
package module

import (
	"errors"
	"os"
	"path/filepath"
)

// Path is the module's path.
const Path = "github.com/coppice-gc/coppice"

// Root is the directory of go.mod, at or above the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod at or above the working directory")
		}
		dir = parent
	}
}
