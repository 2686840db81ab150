// Package docs_test runs the commands that README and the documents show.
package docs_test

import (
	"os"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit"
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "coppice-docs-")
	if err != nil {
		panic(err)
	}
	programsDir = dir
	testkit.Main(m, func() { _ = os.RemoveAll(dir) })
}
