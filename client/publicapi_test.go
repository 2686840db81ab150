package client_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit/must"
)

var update = flag.Bool("update", false, "write the golden files of the public API")

// The exported declarations of package client and its sub-packages are those of the files
// in testdata/publicapi. A change there is a change of the public API: docs/versioning.md
// says which are allowed. Write the files with go test ./client -run TestPublicAPI -update.
func TestPublicAPI(t *testing.T) {
	t.Parallel()
	want := map[string]bool{}
	must.Succeed(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if d.Name() == "testdata" || d.Name() == "internal" {
			return filepath.SkipDir
		}
		got := publicAPI(t, path)
		if got == "" {
			return nil
		}
		golden := filepath.Join("testdata", "publicapi", strings.ReplaceAll(filepath.Join("client", path), string(filepath.Separator), "_")+".txt")
		want[golden] = true
		if *update {
			return os.WriteFile(golden, []byte(got), 0o600)
		}
		data, err := os.ReadFile(golden)
		if err != nil {
			return err
		}
		if string(data) != got {
			t.Errorf("the public API of %s differs from %s:\n%s", path, golden, firstDifference(string(data), got))
		}
		return nil
	}))
	files, err := filepath.Glob("testdata/publicapi/*.txt")
	must.Succeed(t, err)
	for _, f := range files {
		if !want[f] {
			t.Errorf("%s is of no package", f)
		}
	}
}

// publicAPI returns the exported declarations of a package without comments and bodies,
// sorted; empty if there is no package.
func publicAPI(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	must.Succeed(t, err)
	var all []string
	fset := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		must.Succeed(t, err)
		if !ast.FileExports(f) {
			continue
		}
		for _, d := range f.Decls {
			all = append(all, declarations(t, fset, d)...)
		}
	}
	slices.Sort(all)
	return strings.Join(all, "")
}

// declarations returns the text of each exported declaration, one for each constant, variable and type.
func declarations(t *testing.T, fset *token.FileSet, d ast.Decl) (list []string) {
	t.Helper()
	text := func(prefix string, node any) {
		var b bytes.Buffer
		must.Succeed(t, (&printer.Config{Mode: printer.TabIndent, Tabwidth: 8}).Fprint(&b, fset, node))
		var lines []string
		for line := range strings.Lines(b.String()) {
			if strings.TrimSpace(line) != "" {
				// The printer aligns fields by the comments between them, which do not count.
				indent := line[:len(line)-len(strings.TrimLeft(line, "\t"))]
				lines = append(lines, indent+strings.Join(strings.Fields(line), " ")+"\n")
			}
		}
		list = append(list, prefix+strings.TrimSuffix(strings.Join(lines, ""), "\n")+"\n")
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil && !exportedReceiver(d.Recv.List[0].Type) {
			return nil
		}
		d.Body, d.Doc = nil, nil
		text("", d)
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				if s.Names[0].Name != "_" {
					text(d.Tok.String()+" ", s)
				}
			case *ast.TypeSpec:
				text("type ", s)
			}
		}
	}
	return list
}

// exportedReceiver reports whether the type of a receiver is exported.
func exportedReceiver(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.StarExpr:
		return exportedReceiver(e.X)
	case *ast.IndexExpr:
		return exportedReceiver(e.X)
	case *ast.Ident:
		return e.IsExported()
	}
	return false
}

// firstDifference describes the first lines that differ.
func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		var a, b string
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			return fmt.Sprintf("line %d: want %q, got %q", i+1, a, b)
		}
	}
	return ""
}
