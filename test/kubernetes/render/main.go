// Command render writes deploy/kubernetes/coppice.yaml: the chart with its default values.
// Run it after each change of the chart, in the directory test/kubernetes:
// go run ./render.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/coppice-gc/coppice/test/kubernetes/chart"
)

func main() {
	repository := filepath.Join("..", "..")
	text, err := chart.Plain(repository)
	if err == nil {
		err = os.WriteFile(filepath.Join(repository, "deploy", "kubernetes", "coppice.yaml"), text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}
