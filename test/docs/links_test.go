package docs_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit/must"
)

var (
	link       = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	definition = regexp.MustCompile(`(?m)^\[([^\]]+)\]: *(\S+)`)
	shortcut   = regexp.MustCompile("\\[(`[^\\]`]+`)\\](?:[^(:\\[]|$)")
	heading    = regexp.MustCompile(`(?m)^#{1,6} +(.*?) *#*$`)
	lineOf     = regexp.MustCompile(`^L(\d+)(?:-L(\d+))?$`)
	codeSpan   = regexp.MustCompile("`[^`\n]+`")
)

// anchors returns the anchors of the headings of a document, as GitHub makes them.
func anchors(prose string) map[string]bool {
	of := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(prose, -1) {
		text := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(m[1], "$1")
		text = regexp.MustCompile(`[^\p{L}\p{N}\p{M} _-]`).ReplaceAllString(strings.ToLower(text), "")
		slug := strings.ReplaceAll(text, " ", "-")
		name := slug
		for i := 1; of[name]; i++ {
			name = fmt.Sprintf("%s-%d", slug, i)
		}
		of[name] = true
	}
	return of
}

// checkLink returns why a link of a document leads nowhere. Links to other sites are
// not followed.
func checkLink(file, target string, prose map[string]string) error {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return nil
	}
	name, anchor, _ := strings.Cut(target, "#")
	to := file
	if name != "" {
		to = path.Join(path.Dir(file), name)
		if strings.HasPrefix(to, "..") || !exists(to) {
			return fmt.Errorf("%s does not exist", to)
		}
	}
	if anchor == "" {
		return nil
	}
	if m := lineOf.FindStringSubmatch(anchor); m != nil {
		data, err := os.ReadFile(filepath.Join(module, to))
		if n, _ := strconv.Atoi(m[1]); err != nil || n > strings.Count(string(data), "\n") {
			return fmt.Errorf("%s has no line %s", to, m[1])
		}
		return nil
	}
	if !anchors(prose[to])[anchor] {
		return fmt.Errorf("%s has no heading with the anchor %s", to, anchor)
	}
	return nil
}

// Every relative link of a document leads to a file that exists, and to a heading.
func TestLinks(t *testing.T) {
	t.Parallel()
	_, prose, _ := pages(t)
	n := 0
	for file, text := range prose {
		defined := map[string]bool{}
		for _, m := range definition.FindAllStringSubmatch(text, -1) {
			n++
			defined[m[1]] = true
			if err := checkLink(file, m[2], prose); err != nil {
				t.Errorf("%s: [%s]: %v", file, m[1], err)
			}
		}
		for _, m := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(text, "x"), -1) {
			n++
			if err := checkLink(file, m[1], prose); err != nil {
				t.Errorf("%s: (%s): %v", file, m[1], err)
			}
		}
		for _, m := range shortcut.FindAllStringSubmatch(text, -1) {
			if len(defined) > 0 && !defined[m[1]] {
				t.Errorf("%s: [%s] has no definition", file, m[1])
			}
		}
	}
	if n < 100 {
		t.Errorf("found %d links", n)
	}
}

func TestCheckLink(t *testing.T) {
	t.Parallel()
	prose := map[string]string{"docs/x.md": "# A `b` [c](d), e\n## Twice\n## Twice\n", "README.md": "# Top\n"}
	for target, good := range map[string]bool{
		"#a-b-c-e": true, "#twice-1": true, "../README.md#top": true, "https://example.com/none": true, "../README.md": true,
		"#twice-2": false, "none.md": false, "../README.md#none": false, "../../README.md": false, "../go.mod#L1": true, "../go.mod#L100000": false,
	} {
		if err := checkLink("docs/x.md", target, prose); (err == nil) != good {
			t.Errorf("%s: %v", target, err)
		}
	}
}

var (
	codePath = regexp.MustCompile("`([A-Za-z0-9_.][A-Za-z0-9_./-]*)(?:#[^`]*)?`")
	goFile   = regexp.MustCompile(`(?:^|[\s("])((?:[a-z0-9_]+/)*[a-z0-9_]+\.(?:go|md|proto|txtar|yaml))\b`)
	testName = regexp.MustCompile(`^(Test|Benchmark|Fuzz|Example)[A-Z]\w+$`)
)

// Every path between backquotes in a document, and every test that one names, exists.
// CHANGELOG and docs/design speak of the past, and may name what is gone.
func TestNamedFiles(t *testing.T) {
	t.Parallel()
	_, prose, _ := pages(t)
	var tests strings.Builder
	top := map[string]bool{}
	entries, err := os.ReadDir(module)
	must.Succeed(t, err)
	for _, e := range entries {
		top[e.Name()] = e.IsDir()
	}
	walk(t, ".go", func(name string, data []byte) {
		if strings.HasSuffix(name, "_test.go") {
			tests.Write(data)
		}
	})
	declared := func(test string) bool { return strings.Contains(tests.String(), "\nfunc "+test+"(") }
	n := 0
	for file, text := range prose {
		if file == "CHANGELOG.md" || strings.HasPrefix(file, "docs/design/") {
			continue
		}
		for _, m := range codePath.FindAllStringSubmatch(text, -1) {
			name := m[1]
			if testName.MatchString(name) {
				if n++; !declared(name) {
					t.Errorf("%s: there is no test %s", file, name)
				}
				continue
			}
			first, rest, _ := strings.Cut(name, "/")
			if !top[first] || rest == "" {
				continue
			}
			n++
			name = strings.TrimSuffix(strings.TrimSuffix(name, "/..."), "/")
			if exists(name) {
				continue
			}
			at := strings.LastIndex(name, ".")
			if at < 0 || !exists(name[:at]) || !exported(t, name[:at], name[at+1:]) {
				t.Errorf("%s: %s does not exist", file, name)
			}
		}
	}
	if n < 100 {
		t.Errorf("found %d paths", n)
	}
}

// exported reports whether a package declares a name.
func exported(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(module, dir, "*.go"))
	must.Succeed(t, err)
	pattern := regexp.MustCompile(`(?m)^(?:func (?:\([^)]*\) )?|type |var |const |\t)` + regexp.QuoteMeta(name) + `\b`)
	for _, file := range files {
		data, err := os.ReadFile(file)
		must.Succeed(t, err)
		if pattern.Match(data) {
			return true
		}
	}
	return false
}

// otherFiles are names in comments that are no files next to the package.
var otherFiles = []string{
	"internal/bus/doc.go: nats.go",       // the module
	"test/mutation/main.go: evaluate.go", // in internal/lifecycle, as mutants name it
}

// Every file that a package comment names exists, next to the package or by its path
// below the module's root; so does every path in the other comments.
func TestFilesOfComments(t *testing.T) {
	t.Parallel()
	n := 0
	walk(t, ".go", func(name string, data []byte) {
		if strings.HasSuffix(name, ".pb.go") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, data, parser.ParseComments|parser.SkipObjectResolution)
		must.Succeed(t, err)
		for _, c := range f.Comments {
			for _, m := range goFile.FindAllStringSubmatch(c.Text(), -1) {
				first, _, below := strings.Cut(m[1], "/")
				if !below && c != f.Doc || below && !exists(first) {
					continue // of another module, or an example
				}
				n++
				if !slices.Contains(otherFiles, name+": "+m[1]) && !exists(m[1]) && !exists(path.Join(path.Dir(name), m[1])) {
					t.Errorf("%s: a comment names %s, which does not exist", name, m[1])
				}
			}
		}
	})
	if n < 50 {
		t.Errorf("found %d names of files", n)
	}
}
