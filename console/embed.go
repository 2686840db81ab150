// Package console has the assets of the web console, which `npm run build` makes from the sources in this directory.
//
// They are committed, so that Go alone builds the program; a test compares the hash of the sources with the one that the
// build has written. cmd/coppice/internal/console serves them.
package console

import (
	"embed"
	"io/fs"
)

//go:embed dist/index.html all:dist/assets
var dist embed.FS

// Dist returns the files for the browser: index.html, and the directory assets. The name of an asset has the hash of its content.
func Dist() fs.FS {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // "dist" is a valid path
	}
	return files
}
