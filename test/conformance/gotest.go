package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// player is a test that plays one script, or all scripts in a directory.
type player struct {
	of, pkg, test string
}

// readGo finds the citations in the tests of a file, and the scripts that they play.
func readGo(module fs.FS, name string) ([]citation, []player, error) {
	src, err := fs.ReadFile(module, name)
	if err != nil {
		return nil, nil, err
	}
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	line := func(p token.Pos) int { return files.Position(p).Line }
	var plays []player
	var tests []*ast.FuncDecl
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && isTest(fn) {
			tests = append(tests, fn)
			for _, of := range played(fn) {
				plays = append(plays, player{of: path.Join(path.Dir(name), of), pkg: path.Dir(name), test: fn.Name.Name})
			}
		}
	}
	var all []citation
	for _, group := range f.Comments {
		var block []string
		for _, c := range group.List {
			block = append(block, strings.TrimPrefix(strings.TrimPrefix(c.Text, "//"), " "))
		}
		found, err := mentions(block)
		if err != nil {
			return nil, nil, fmt.Errorf("%s:%d: %w", name, line(group.Pos()), err)
		}
		if len(found) == 0 {
			continue
		}
		var in *ast.FuncDecl
		for _, fn := range tests {
			if fn.Doc == group || fn.Body.Lbrace < group.Pos() && group.End() < fn.Body.Rbrace && above(fn.Body, line, line(group.End())) {
				in = fn
			}
		}
		if in == nil {
			return nil, nil, fmt.Errorf("%s:%d: %s is cited, but not by a test, or not above one of its statements",
				name, line(group.Pos()), strings.Join(found[0].ids, ", "))
		}
		for _, m := range found {
			for _, id := range m.ids {
				all = append(all, citation{ID: id, File: name, Line: line(group.Pos()) + m.line, Package: path.Dir(name), Test: in.Name.Name})
			}
		}
	}
	return all, plays, nil
}

func isTest(fn *ast.FuncDecl) bool {
	return fn.Recv == nil && fn.Body != nil && fn.Name.Name != "TestMain" &&
		(strings.HasPrefix(fn.Name.Name, "Test") || strings.HasPrefix(fn.Name.Name, "Fuzz"))
}

// above reports whether code begins on the next line.
func above(body *ast.BlockStmt, line func(token.Pos) int, comment int) (is bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n.(type) {
		case nil, *ast.Comment, *ast.CommentGroup:
		default:
			is = is || n.Pos() > body.Lbrace && line(n.Pos()) == comment+1
		}
		return !is
	})
	return is
}

// played are the scripts that a test plays: datadriven.Walk(t, "testdata", ...),
// datadriven.RunTest(t, "testdata/x.txt", ...), testscript.Params{Dir: "testdata/script"}.
func played(fn *ast.FuncDecl) []string {
	var of []string
	add := func(e ast.Expr) {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				of = append(of, s)
			}
		}
	}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if (selects(n.Fun, "datadriven", "Walk") || selects(n.Fun, "datadriven", "RunTest")) && len(n.Args) > 1 {
				add(n.Args[1])
			}
		case *ast.CompositeLit:
			for _, e := range n.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok && selects(n.Type, "testscript", "Params") {
					if key, ok := kv.Key.(*ast.Ident); ok && key.Name == "Dir" {
						add(kv.Value)
					}
				}
			}
		}
		return true
	})
	return of
}

func selects(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg && s.Sel.Name == name
}
