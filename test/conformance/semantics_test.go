package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/test/internal/module"
)

var (
	definition = regexp.MustCompile("(?m)^\\[`([\\w.]+)`\\]: (\\S+\\.go)$")
	reference  = regexp.MustCompile("\\[`([\\w.]+)`\\](?:[^:(]|$)")
)

// The functions that docs/semantics.md names exist in the files that it names.
func TestDecidingFunctions(t *testing.T) {
	t.Parallel()
	root, err := module.Root()
	must.Succeed(t, err)
	docs := filepath.Join(root, "docs")
	page, err := os.ReadFile(filepath.Join(docs, "semantics.md"))
	must.Succeed(t, err)
	defined := map[string]string{}
	for _, m := range definition.FindAllStringSubmatch(string(page), -1) {
		defined[m[1]] = filepath.Join(docs, filepath.FromSlash(m[2]))
	}
	named := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		for _, m := range reference.FindAllStringSubmatch(line, -1) {
			named[m[1]] = true
		}
	}
	if got, want := slices.Sorted(maps.Keys(named)), slices.Sorted(maps.Keys(defined)); !slices.Equal(got, want) || len(got) < 40 {
		t.Errorf("named are %v, defined are %v", got, want)
	}
	for name, file := range defined {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			continue
		}
		if !slices.ContainsFunc(f.Decls, func(d ast.Decl) bool { return declares(d, name) }) {
			t.Errorf("%s has no function %s", file, name)
		}
	}
}

// declares reports whether d is the function, or the method Type.Name.
func declares(d ast.Decl, name string) bool {
	fn, ok := d.(*ast.FuncDecl)
	if !ok {
		return false
	}
	of, method, isMethod := strings.Cut(name, ".")
	if !isMethod || fn.Recv == nil {
		return fn.Name.Name == name
	}
	recv := fn.Recv.List[0].Type
	if star, ok := recv.(*ast.StarExpr); ok {
		recv = star.X
	}
	typ, ok := recv.(*ast.Ident)
	return ok && typ.Name == of && fn.Name.Name == method
}
