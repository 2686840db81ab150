package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// helpFields are fields and parameters whose text a user reads as help.
var helpFields = []string{"Short", "Long", "Example", "Use", "Usage", "Help", "About", "Description"}

// golang checks a Go file.
func (f *file) golang(text []byte) error {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, f.path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	line := func(n ast.Node) int { return files.Position(n.Pos()).Line }
	for _, group := range tree.Comments {
		f.comment(files, group)
	}
	f.add(f.inCode(f.path, line(tree.Name), kindPackage, tree.Name.Name, nil))
	test := strings.HasSuffix(f.path, "_test.go")
	help := map[ast.Node]bool{}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && slices.Contains(helpFields, key.Name) {
				ast.Inspect(n.Value, func(v ast.Node) bool {
					if l, ok := v.(*ast.BasicLit); ok {
						help[l] = true
					}
					return true
				})
			}
		case *ast.Ident:
			if n != tree.Name {
				f.add(f.inCode(f.path, line(n), kindIdentifier, n.Name, split(f.lines[line(n)-1])))
			}
		case *ast.BasicLit:
			if n.Kind != token.STRING {
				break
			}
			value, err := strconv.Unquote(n.Value)
			if err != nil {
				break
			}
			// Users read errors and what commands print, as they read help.
			sentence := strings.ContainsAny(value, " \n") && !test
			switch {
			case help[n] || sentence && strings.HasPrefix(f.path, "cmd/"):
				f.prose(line(n), kindHelp, value)
				return true
			case sentence:
				f.prose(line(n), kindString, value) // and below: a compound such as work-redrive is no sentence
			}
			for i, part := range strings.Split(value, "\n") {
				f.add(f.inCode(f.path, line(n)+i, kindString, part, nil))
			}
		}
		return true
	})
	return nil
}

// comment checks a group of comments as one text.
func (f *file) comment(files *token.FileSet, group *ast.CommentGroup) {
	var text strings.Builder
	first := files.Position(group.Pos()).Line
	at := first
	for _, c := range group.List {
		for ; at < files.Position(c.Pos()).Line; at++ {
			text.WriteByte('\n')
		}
		switch {
		case strings.HasPrefix(c.Text, "/*"):
			body := strings.TrimSuffix(c.Text[2:], "*/")
			text.WriteString(body)
			at += strings.Count(body, "\n")
		case !directive(c.Text):
			text.WriteString(c.Text[2:])
		}
	}
	f.prose(first, kindComment, text.String())
}

// directive reports whether a comment is for a tool: //go:embed, //nolint.
func directive(comment string) bool {
	return strings.HasPrefix(comment, "//words:") || strings.HasPrefix(comment, "//go:") || strings.HasPrefix(comment, "//nolint")
}
