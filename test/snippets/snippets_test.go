// Package snippets_test compiles every Go snippet of README, the documents and all package
// comments. It runs nothing; package docs_test runs commands and manifests.
package snippets_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// module is the module's root.
const module = "../.."

// A snippet is a program, declarations, or statements. Statements are compiled in a
// function that returns an error, after this prelude, which has the variables and
// functions that snippets use and do not declare.
const prelude = `package snippet

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/coppicetest"
	"github.com/coppice-gc/coppice/client/fake"
	"github.com/coppice-gc/coppice/client/reconcile"
)

var (
	ctx         context.Context
	nc          *nats.Conn
	c           *client.Client
	pods        client.ResourceClient
	deployments client.ResourceClient
	sites       client.Resource
	configMaps  client.Resource
	uid         string
	err         error
)

func runController(client.Interface)                                       {}
func deleteBucket(context.Context, *client.Object) error                   { return nil }
func stopContainers(context.Context, *client.Object, time.Time) error      { return nil }
func userOf(context.Context, *client.Object) (string, error)               { return "", nil }
`

// snippet is Go code in a document.
type snippet struct {
	file string
	line int
	code string
}

func (s snippet) String() string { return fmt.Sprintf("%s:%d", s.file, s.line) }

// source returns the snippet as a file, and the number of lines before it.
func (s snippet) source() (text string, before int) {
	word, _, _ := strings.Cut(strings.TrimLeft(s.code, "\n\t "), " ")
	switch word {
	case "package":
		return s.code, 0
	case "func", "type", "import":
		return prelude + s.code, strings.Count(prelude, "\n")
	}
	head := prelude + "func _() error {\n"
	return head + s.code + "\nreturn nil\n}\n", strings.Count(head, "\n")
}

// inMarkdown returns the snippets in the blocks of a document that begin with ```go.
func inMarkdown(file, text string) (list []snippet) {
	var block *snippet
	for i, line := range strings.Split(text, "\n") {
		switch {
		case block == nil && strings.TrimSpace(line) == "```go":
			block = &snippet{file: file, line: i + 1}
		case block != nil && strings.TrimSpace(line) == "```":
			list, block = append(list, *block), nil
		case block != nil:
			block.code += line + "\n"
		}
	}
	return list
}

// inComment returns the code blocks of the package comment of a file.
func inComment(t *testing.T, file string) (list []snippet) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, filepath.Join(module, file), nil, parser.ParseComments|parser.PackageClauseOnly)
	must.Succeed(t, err)
	for _, b := range new(comment.Parser).Parse(f.Doc.Text()).Content {
		code, ok := b.(*comment.Code)
		if !ok {
			continue
		}
		found := snippet{file, fset.Position(f.Doc.Pos()).Line, code.Text}
		if sdk[filepath.ToSlash(file)] || found.isGo() {
			list = append(list, found)
		}
	}
	return list
}

// sdk are files whose code blocks are all Go, so that one with a syntax error is refused.
var sdk = map[string]bool{
	"client/doc.go": true, "client/coppicetest/coppicetest.go": true, "client/fake/fake.go": true, "client/reconcile/reconcile.go": true,
}

// isGo reports whether a code block, which may also be a table or a command, is Go.
func (s snippet) isGo() bool {
	text, _ := s.source()
	_, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	return err == nil
}

func TestSnippets(t *testing.T) {
	t.Parallel()
	var all []snippet
	err := filepath.WalkDir(module, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != module || d.Name() == "testdata" || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		name, err := filepath.Rel(module, path)
		if err != nil {
			return err
		}
		switch filepath.Ext(path) {
		case ".go":
			all = append(all, inComment(t, name)...)
		case ".md":
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			all = append(all, inMarkdown(name, string(data))...)
		}
		return nil
	})
	must.Succeed(t, err)
	if len(all) < 10 {
		t.Fatalf("found %d snippets", len(all))
	}
	check := newChecker(t, all)
	for _, s := range all {
		if err := check.check(s); err != nil {
			t.Errorf("%s: %v\n%s", s, err, s.code)
		}
	}
}

// Of the comments of packages other than client, only blocks that parse as Go are
// checked.
func TestIsGo(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]bool{
		"err := c.Nothing(ctx)\n": true, "func f() {}\n": true,
		"go run ./test/words -count   prints more\n": false, "a table   of words\n": false,
	} {
		if got := (snippet{code: code}).isGo(); got != want {
			t.Errorf("%q: %t", code, got)
		}
	}
}

// The test finds a snippet that does not compile, and accepts unused variables.
func TestCheck(t *testing.T) {
	t.Parallel()
	text := "# A\n```go\npod, err := pods.Get(ctx, \"a\")\n```\ntext\n```go\nfunc f() error { return c.RunFinalizer(ctx, nil) }\n```\n"
	list := inMarkdown("a.md", text)
	if len(list) != 2 || list[1].line != 6 {
		t.Fatalf("found %v", list)
	}
	check := newChecker(t, list)
	if err := check.check(list[0]); err != nil {
		t.Error(err)
	}
	if err := check.check(list[1]); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a call with wrong arguments: %v", err)
	}
}

// checker type-checks snippets with the export data of the packages that they import.
type checker struct {
	fset *token.FileSet
	imp  types.Importer
}

func newChecker(t *testing.T, list []snippet) *checker {
	t.Helper()
	paths := map[string]bool{}
	for _, s := range list {
		text, _ := s.source()
		f, err := parser.ParseFile(token.NewFileSet(), "", text, parser.ImportsOnly)
		if err != nil {
			continue // check reports it
		}
		for _, i := range f.Imports {
			paths[strings.Trim(i.Path.Value, `"`)] = true
		}
	}
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	for p := range paths {
		args = append(args, p)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = module
	out, err := cmd.Output()
	must.Succeed(t, err)
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	fset := token.NewFileSet()
	return &checker{fset, importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no export data for %s", path)
		}
		return os.Open(exports[path])
	})}
}

// check returns why a snippet does not compile. Unused variables and imports are allowed.
func (c *checker) check(s snippet) error {
	text, before := s.source()
	f, err := parser.ParseFile(c.fset, "", text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	var errs []error
	conf := types.Config{Importer: c.imp, Error: func(err error) {
		var e types.Error
		if errors.As(err, &e) && !e.Soft {
			errs = append(errs, fmt.Errorf("line %d: %s", c.fset.Position(e.Pos).Line-before, e.Msg))
		}
	}}
	_, _ = conf.Check("snippet", c.fset, []*ast.File{f}, nil)
	return errors.Join(errs...)
}
