package console_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/console"
)

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// The assets are those of the sources.
func TestSources(t *testing.T) {
	t.Parallel()
	var paths []string
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !d.IsDir():
			if !regexp.MustCompile(`\.(test\.tsx?|go)$`).MatchString(path) {
				paths = append(paths, path)
			}
		case slices.Contains([]string{"dist", "node_modules", "dev", "e2e"}, path):
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(paths)
	list := ""
	for _, path := range paths {
		list += fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(read(t, path))), path)
	}
	if have, want := fmt.Sprintf("%x\n", sha256.Sum256([]byte(list))), read(t, "dist/sources.sha256"); have != want {
		t.Errorf("console/dist is not made from these sources; run npm run build in console/, and commit what it writes")
	}
}

// What a browser downloads is small.
func TestSize(t *testing.T) {
	t.Parallel()
	const limit = 2 << 20
	var all bytes.Buffer
	err := fs.WalkDir(console.Dist(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(console.Dist(), path)
		if err != nil {
			return err
		}
		w := gzip.NewWriter(&all)
		if _, err := w.Write(content); err != nil {
			return err
		}
		return w.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes gzipped", all.Len())
	if all.Len() > limit || all.Len() == 0 {
		t.Errorf("the assets have %d bytes gzipped; want at least 1, and at most %d", all.Len(), limit)
	}
}

// The page does what the Content-Security-Policy of the server allows: no inline code or style, and nothing from another host.
func TestPage(t *testing.T) {
	t.Parallel()
	page, err := fs.ReadFile(console.Dist(), "index.html")
	if err != nil {
		t.Fatal(err)
	}
	for _, refused := range []string{
		`(?i)<script(\s[^>]*)?>[^<]`, `(?i)<style`, `(?i)\sstyle\s*=`, `(?i)\son[a-z]+\s*=`, `(?i)javascript:`, `//`,
	} {
		if found := regexp.MustCompile(refused).FindString(string(page)); found != "" {
			t.Errorf("index.html has %q, which matches %s", found, refused)
		}
	}
	for _, name := range regexp.MustCompile(`(?:src|href)="/([^"]*)"`).FindAllStringSubmatch(string(page), -1) {
		if _, err := fs.Stat(console.Dist(), name[1]); err != nil {
			t.Errorf("index.html names a file that is not embedded: %v", err)
		}
	}
	if !regexp.MustCompile(`<script [^>]*src="/assets/`).Match(page) {
		t.Error("index.html has no script")
	}
}

// The lock file works with any registry, and names none.
func TestLockNamesNoHost(t *testing.T) {
	t.Parallel()
	for n, line := range strings.Split(read(t, "package-lock.json"), "\n") {
		if strings.Contains(line, "://") {
			t.Errorf("package-lock.json:%d: %s; run npm run lock in console/", n+1, strings.TrimSpace(line))
		}
	}
}

// docs/licences.md has the licence of each package that is bundled.
func TestLicences(t *testing.T) {
	t.Parallel()
	var bundled []struct{ Name, Version, Licence string }
	if err := json.Unmarshal([]byte(read(t, "dist/licences.json")), &bundled); err != nil {
		t.Fatal(err)
	}
	if len(bundled) == 0 {
		t.Error("dist/licences.json names no package; preact is bundled")
	}
	document := read(t, "../docs/licences.md")
	for _, p := range bundled {
		if want := fmt.Sprintf("\n## %s %s\n\nLicence: %s.", p.Name, p.Version, p.Licence); !strings.Contains(document, want) {
			t.Errorf("docs/licences.md lacks %s %s (%s); run npm run build in console/", p.Name, p.Version, p.Licence)
		}
	}
}
