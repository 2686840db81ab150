package api_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// constants returns the constants of a file whose names begin with Err, and their values.
func constants(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	must.Succeed(t, err)
	found := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		d, ok := n.(*ast.GenDecl)
		if !ok || d.Tok != token.CONST {
			return true
		}
		for _, spec := range d.Specs {
			v := spec.(*ast.ValueSpec)
			if !strings.HasPrefix(v.Names[0].Name, "Err") {
				continue
			}
			switch value := v.Values[0].(type) {
			case *ast.BasicLit:
				found[v.Names[0].Name] = strings.Trim(value.Value, `"`)
			case *ast.SelectorExpr:
				found[v.Names[0].Name] = strings.TrimPrefix(value.Sel.Name, "Err")
			}
		}
		return true
	})
	return found
}

// Each reason has one name: in Go after Err, in package client, on the wire, and in
// docs/errors.md.
func TestOneNameForEachReason(t *testing.T) {
	t.Parallel()
	reasons, aliases := constants(t, "error.go"), constants(t, "../types.go")
	if len(reasons) < 15 || !reflect.DeepEqual(reasons, aliases) {
		t.Errorf("package client has the reasons %v, package api %v", aliases, reasons)
	}
	page, err := os.ReadFile("../../docs/errors.md")
	must.Succeed(t, err)
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| (\\d{3}) \\| `(\\w+)` \\|").FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, m[2])
		if got := fmt.Sprint(api.Reason(m[2]).Code()); got != m[1] {
			t.Errorf("docs/errors.md has the code %s for %s, want %s", m[1], m[2], got)
		}
	}
	for name, value := range reasons {
		if name != "Err"+value {
			t.Errorf("%s is %q on the wire", name, value)
		}
		if api.Reason(value).Code() == 0 {
			t.Errorf("%s has no code", name)
		}
		if !slices.Contains(documented, value) {
			t.Errorf("docs/errors.md does not list %s", value)
		}
	}
}

// An Error matches its reason and no other, wrapped or not, and survives a Status.
func TestError(t *testing.T) {
	t.Parallel()
	e := &api.Error{
		Reason: api.ErrInvalid, Message: "pods \"a\" is invalid", Resource: "pods", Namespace: "shop", Name: "a", UID: "u",
		Causes: []api.Cause{{Reason: "FieldValueRequired", Field: "spec", Message: "Required value"}}, RetryAfter: time.Second, Index: 2,
	}
	wrapped := fmt.Errorf("apply: %w", e)
	if !errors.Is(wrapped, api.ErrInvalid) || errors.Is(wrapped, api.ErrNotFound) {
		t.Errorf("%v matches the wrong reason", wrapped)
	}
	if got := api.ErrorOf(e.Status()); !reflect.DeepEqual(got, e) {
		t.Errorf("got %+v, want %+v", got, e)
	}
}
