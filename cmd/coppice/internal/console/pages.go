package console

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

// pages serves the files of the pages, and index.html for each path that is none of them: the page itself knows the
// paths of its views.
type pages struct{ files map[string]*page }

// page is a file.
type page struct {
	contentType string
	plain, gzip []byte
	// named: the name has a hash of the content, which never changes then.
	named bool
}

const index = "index.html"

// newPages reads the files.
func newPages(assets fs.FS) (*pages, error) {
	p := &pages{files: map[string]*page{}}
	err := fs.WalkDir(assets, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(assets, name)
		if err != nil {
			return err
		}
		one := &page{contentType: mime.TypeByExtension(path.Ext(name)), plain: data, named: strings.HasPrefix(name, "assets/")}
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level exists
		_, _ = z.Write(data)                                  // into memory
		if err := z.Close(); err == nil && b.Len() < len(data) {
			one.gzip = b.Bytes()
		}
		p.files[name] = one
		return nil
	})
	if err == nil && p.files[index] == nil {
		err = fmt.Errorf("the console has no %s", index)
	}
	return p, err
}

func (p *pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		refuse(w, http.StatusMethodNotAllowed, "MethodNotAllowed", "pages are only read")
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	one := p.files[name]
	if one == nil {
		if strings.HasPrefix(name, "assets/") { // of another version of the console: index.html would not be a script
			http.NotFound(w, r)
			return
		}
		one = p.files[index]
	}
	h := w.Header()
	h.Set("Content-Type", one.contentType)
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-cache")
	if one.named {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	content := one.plain
	if one.gzip != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		content = one.gzip
	}
	h.Set("Content-Length", fmt.Sprint(len(content)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(content) // the browser may be gone
	}
}
