package view_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
)

var update = flag.Bool("update", false, "write the types of TypeScript")

// typesFile has the types of TypeScript.
const typesFile = "../../../../../console/src/api/types.ts"

// roots are the types that messages consist of. Those that their fields name are written as well.
var roots = []any{
	view.SignIn{}, view.Ways{}, view.Session{}, view.Failure{}, view.Overview{}, view.Kind{}, view.ObjectPage{}, view.History{},
	view.Family{}, view.Found{}, view.Ask{}, view.News{}, view.GraphFrame{}, view.GraphNext{},
	view.Rights{}, view.Plan{}, view.PlanBelow{}, view.Delete{}, view.Deleted{}, view.Progress{}, view.RemoveFinalizer{}, view.Done{},
	view.ParkedPage{}, view.ChangeParked{}, view.ParkedResult{}, view.EventFilter{}, view.Events{}, view.Cascade{},
}

// The browser has the types of the server.
func TestTypeScript(t *testing.T) {
	t.Parallel()
	w := writer{done: map[reflect.Type]bool{}}
	for _, r := range roots {
		w.add(reflect.TypeOf(r))
	}
	var b strings.Builder
	b.WriteString("// Written from the types of cmd/coppice/internal/console/view by its test, with -update. Do not edit.\n")
	names := map[string]bool{}
	for len(w.queue) > 0 {
		of := w.queue[0]
		w.queue = w.queue[1:]
		if names[of.Name()] {
			t.Errorf("two types have the name %s", of.Name())
		}
		names[of.Name()] = true
		b.WriteString(w.declare(of))
	}
	if *update {
		if err := os.WriteFile(typesFile, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(typesFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != b.String() {
		t.Errorf("%s differs from the types of this package; run go test with -update", typesFile)
	}
}

// Every exported type of the package is one of a message: none is left out of the browser's types.
func TestEveryTypeIsWritten(t *testing.T) {
	t.Parallel()
	w := writer{done: map[reflect.Type]bool{}}
	for _, r := range roots {
		w.add(reflect.TypeOf(r))
	}
	for len(w.queue) > 0 {
		of := w.queue[0]
		w.queue = w.queue[1:]
		_ = w.declare(of)
	}
	var written []string
	for of := range w.done {
		written = append(written, of.Name())
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			g, is := d.(*ast.GenDecl)
			if !is || g.Tok != token.TYPE {
				continue
			}
			for _, s := range g.Specs {
				if of := s.(*ast.TypeSpec).Name.Name; !slices.Contains(written, of) { //nolint:forcetypeassert // of a declaration of types
					t.Errorf("%s: no message has %s", name, of)
				}
			}
		}
	}
}

// writer writes types, each once.
type writer struct {
	queue []reflect.Type
	done  map[reflect.Type]bool
}

func (w *writer) add(of reflect.Type) {
	if !w.done[of] {
		w.done[of] = true
		w.queue = append(w.queue, of)
	}
}

func (w *writer) declare(of reflect.Type) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nexport interface %s {\n", of.Name())
	w.fields(&b, of)
	b.WriteString("}\n")
	return b.String()
}

// fields writes the fields that JSON has of a type. A field hides the one of the same name in a type that is embedded.
func (w *writer) fields(b *strings.Builder, of reflect.Type) {
	for _, f := range reflect.VisibleFields(of) {
		if f.Anonymous || !f.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		optional := ""
		if strings.Contains(options, "omitempty") {
			optional = "?"
		}
		fmt.Fprintf(b, "  %s%s: %s;\n", name, optional, w.name(f.Type, optional == "" && f.Type.Kind() == reflect.Slice))
	}
}

// name returns the type of TypeScript.
func (w *writer) name(of reflect.Type, orNull bool) string {
	switch {
	case of == reflect.TypeFor[time.Time]():
		return "string"
	case of.Kind() == reflect.Pointer:
		return w.name(of.Elem(), false)
	case of.Kind() == reflect.Slice:
		list := w.name(of.Elem(), false) + "[]"
		if orNull {
			list += " | null"
		}
		return list
	case of.Kind() == reflect.Map:
		return "Record<" + w.name(of.Key(), false) + ", " + w.name(of.Elem(), false) + ">"
	case of.Kind() == reflect.Struct:
		w.add(of)
		return of.Name()
	case of.Kind() == reflect.Bool:
		return "boolean"
	case of.Kind() == reflect.String:
		return "string"
	}
	return "number"
}
