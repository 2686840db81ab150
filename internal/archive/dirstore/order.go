package dirstore

import (
	"cmp"
	"io/fs"
	"slices"
)

// inOrder sorts the entries of a directory by their names, with "/" behind those of
// directories.
func inOrder(files []fs.DirEntry) []fs.DirEntry {
	key := func(f fs.DirEntry) string {
		if f.IsDir() {
			return f.Name() + "/"
		}
		return f.Name()
	}
	slices.SortFunc(files, func(a, b fs.DirEntry) int { return cmp.Compare(key(a), key(b)) })
	return files
}
