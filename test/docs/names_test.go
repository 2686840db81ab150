package docs_test

import (
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// goPackage is a package of the module: what its files declare, without those of tests.
type goPackage struct {
	dir, name string
	// files has the declarations of each file: Name, or Type.Name of a method or a field.
	files map[string][]string
	// imports are the paths of imported packages by the names that the files use.
	imports map[string]string
	// docs are the texts of the package comments by file.
	docs map[string]string
	// constants are the values of constants that are a string, or what is added to another one.
	constants map[string]string
}

// declares reports whether a file of the package declares a name.
func (p *goPackage) declares(name string) bool {
	for _, names := range p.files {
		if slices.Contains(names, name) {
			return true
		}
	}
	return false
}

// values returns the values of the constants whose names begin with a prefix.
func (p *goPackage) values(prefix string) (list []string) {
	for name, value := range p.constants {
		if strings.HasPrefix(name, prefix) {
			list = append(list, value)
		}
	}
	return list
}

// goModule has the packages by directory.
type goModule struct{ packages map[string]*goPackage }

func readModule(t *testing.T) *goModule {
	t.Helper()
	m := &goModule{packages: map[string]*goPackage{}}
	walk(t, ".go", func(name string, data []byte) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, data, parser.ParseComments|parser.SkipObjectResolution)
		must.Succeed(t, err)
		dir := path.Dir(name)
		p := m.packages[dir]
		if p == nil {
			p = &goPackage{dir: dir, name: f.Name.Name, files: map[string][]string{}, imports: map[string]string{}, docs: map[string]string{}, constants: map[string]string{}}
			m.packages[dir] = p
		}
		if f.Doc != nil && !strings.HasSuffix(name, ".pb.go") {
			p.docs[name] = f.Doc.Text()
		}
		for _, i := range f.Imports {
			to, err := strconv.Unquote(i.Path.Value)
			must.Succeed(t, err)
			as := path.Base(to)
			if i.Name != nil {
				as = i.Name.Name
			}
			p.imports[as] = to
		}
		for _, d := range f.Decls {
			p.files[name] = append(p.files[name], p.declared(d)...)
		}
	})
	return m
}

// declared returns the names that a declaration declares, and keeps its constants.
func (p *goPackage) declared(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return []string{d.Name.Name}
		}
		return []string{receiver(d.Recv.List[0].Type) + "." + d.Name.Name}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
				var members *ast.FieldList
				switch of := s.Type.(type) {
				case *ast.StructType:
					members = of.Fields
				case *ast.InterfaceType:
					members = of.Methods
				}
				if members == nil {
					continue
				}
				for _, field := range members.List {
					for _, n := range field.Names {
						names = append(names, s.Name.Name+"."+n.Name)
					}
				}
			case *ast.ValueSpec:
				for i, n := range s.Names {
					names = append(names, n.Name)
					if i >= len(s.Values) {
						continue
					}
					value := s.Values[i]
					if sum, ok := value.(*ast.BinaryExpr); ok {
						value = sum.Y // of Group + "/contents"
					}
					if l, ok := value.(*ast.BasicLit); ok && l.Kind == token.STRING {
						p.constants[n.Name] = strings.Trim(l.Value, "\"`")
					}
				}
			}
		}
	}
	return names
}

// receiver returns the name of the type of a receiver.
func receiver(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.StarExpr:
		return receiver(of.X)
	case *ast.IndexExpr:
		return receiver(of.X)
	case *ast.IndexListExpr:
		return receiver(of.X)
	case *ast.Ident:
		return of.Name
	}
	return ""
}

// named returns the packages with a name.
func (m *goModule) named(name string) (list []*goPackage) {
	for _, p := range m.packages {
		if p.name == name {
			list = append(list, p)
		}
	}
	return list
}

const (
	modulePath = "github.com/coppice-gc/coppice/"
	busDir     = "internal/bus"
)

var (
	hop        = regexp.MustCompile(`^([\w./-]+\.go): ([\w.]+)$`)
	identifier = regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$`)
	filePath   = regexp.MustCompile(`^[\w.-]+(/[\w.-]+)+$`)
	fileName   = regexp.MustCompile(`^[\w-]+\.(go|md|proto)$`)
)

// ofOthers are names in ARCHITECTURE that other projects have given.
var ofOthers = []string{"commit_delay"}

// check returns why a word of a document, which stands between backquotes, names nothing in the module. A
// word that is neither a file, nor a subject, nor an identifier of Go is not checked. Some are looked for only in the packages
// that the same paragraph names.
func (m *goModule) check(word string, paragraph []*goPackage) error {
	in := func(name string) bool {
		return slices.ContainsFunc(paragraph, func(p *goPackage) bool { return p.declares(name) })
	}
	switch found := hop.FindStringSubmatch(word); {
	case slices.Contains(ofOthers, word):
	case found != nil:
		p := m.packages[path.Dir(found[1])]
		if p == nil || !slices.Contains(p.files[found[1]], found[2]) {
			return fmt.Errorf("%s does not declare %s", found[1], found[2])
		}
	case strings.HasPrefix(word, "work."):
		if queues := m.packages[busDir].values("Queue"); !slices.Contains(queues, strings.TrimPrefix(word, "work.")) {
			return fmt.Errorf("there is no such queue; there are %q", queues)
		}
	case fileName.MatchString(word):
		if !slices.ContainsFunc(paragraph, func(p *goPackage) bool { return exists(path.Join(p.dir, word)) }) {
			return fmt.Errorf("no package that the paragraph names has such a file")
		}
	case filePath.MatchString(word):
		group, name, _ := strings.Cut(word, "/")
		finalizer := group == "coppice.dev" && m.isValue("/"+name)
		if !exists(word) && !finalizer {
			return fmt.Errorf("there is no such file or directory")
		}
	case identifier.MatchString(word):
		first, rest, _ := strings.Cut(word, ".")
		if m.isValue(word) || in(word) || rest == "" && len(m.named(word)) > 0 {
			return nil
		}
		if slices.ContainsFunc(m.named(first), func(p *goPackage) bool { return p.declares(rest) }) {
			return nil
		}
		return fmt.Errorf("no package of this name, and none that the paragraph names, declares it")
	case !strings.Contains(word, " ") && strings.ContainsAny(word, "/()"), strings.Contains(word, ".go:"):
		return fmt.Errorf("write a file as path/name.go, and a function of it as path/name.go: Name")
	}
	return nil
}

// isValue reports whether a word is the name of a verb or of a built-in finalizer.
func (m *goModule) isValue(word string) bool {
	return slices.Contains(m.packages[busDir].values("Verb"), word) || slices.Contains(m.packages["internal/lifecycle"].values("Finalizer"), word)
}

// namedIn returns the packages that a paragraph names: by the path of a directory or file, or as the
// first part of an identifier.
func (m *goModule) namedIn(words []string) (list []*goPackage) {
	for _, w := range words {
		if found := hop.FindStringSubmatch(w); found != nil {
			w = found[1]
		}
		for _, dir := range []string{w, path.Dir(w)} {
			if p := m.packages[dir]; p != nil && filePath.MatchString(w) {
				list = append(list, p)
			}
		}
		if first, _, qualified := strings.Cut(w, "."); qualified && identifier.MatchString(w) {
			list = append(list, m.named(first)...)
		}
	}
	return list
}

// The words between backquotes in ARCHITECTURE that look like a file, a subject or an identifier of Go
// exist, and its subjects are those of package bus.
func TestArchitectureNames(t *testing.T) {
	t.Parallel()
	m := readModule(t)
	blocks, prose, _ := pages(t)
	const file = "ARCHITECTURE.md"
	checked := 0
	for paragraph := range strings.SplitSeq(regexp.MustCompile(`(?m)^(\||\d+\. |- )`).ReplaceAllString(prose[file], "\n\n$1"), "\n\n") {
		var words []string
		for _, span := range codeSpan.FindAllString(paragraph, -1) {
			words = append(words, strings.Trim(span, "`"))
		}
		named := m.namedIn(words)
		for _, w := range words {
			checked++
			if err := m.check(w, named); err != nil {
				t.Errorf("%s: `%s`: %v", file, w, err)
			}
		}
	}
	if checked < 100 {
		t.Errorf("%s has %d words between backquotes: are they still found?", file, checked)
	}
	checked = 0
	for _, b := range blocks {
		if b.file != file {
			continue
		}
		for _, found := range regexp.MustCompile(`\.(internal|work)\.(\w+)`).FindAllStringSubmatch(b.text, -1) {
			checked++
			if known := m.packages[busDir].values(map[string]string{"internal": "Op", "work": "Queue"}[found[1]]); !slices.Contains(known, found[2]) {
				t.Errorf("%s: %s: the subjects .%s are %q", b, found[0], found[1], known)
			}
		}
	}
	if checked < 10 {
		t.Errorf("%s shows %d subjects: are they still found?", file, checked)
	}
}

// A word that names nothing is noticed, also if it would name something elsewhere.
func TestNamesThatDoNotExist(t *testing.T) {
	t.Parallel()
	m := readModule(t)
	writer := m.namedIn([]string{"services/graph/writer"})
	for _, right := range []string{"services/graph/write.go: term.applied", "submit.go", "Writer.Submit", "work.dirty", "removefinalizer", "lifecycle.Delete", "make check"} {
		if err := m.check(right, writer); err != nil {
			t.Errorf("`%s`: %v", right, err)
		}
	}
	for _, wrong := range []string{
		"services/graph/realm.go: term.applied", "services/graph/none.go: term.applied", "delete.go", "Tx.Apply", "work.deleted",
		"removesfinalizer", "default", "command.Delete", "services/graph/write.go:term.applied", "services/graph/write.go: term.applied()", "services/graph/none/", "services/graph/sweeper", "Submitted",
	} {
		if m.check(wrong, writer) == nil {
			t.Errorf("`%s` is not noticed", wrong)
		}
	}
}

// docText returns the text of a part of a comment outside of code, with the links in it.
func docText(c []comment.Text, links *[]*comment.DocLink) string {
	var b strings.Builder
	for _, t := range c {
		switch t := t.(type) {
		case comment.Plain:
			b.WriteString(string(t))
		case comment.Italic:
			b.WriteString(string(t))
		case *comment.Link:
			b.WriteString(docText(t.Text, links))
		case *comment.DocLink:
			*links = append(*links, t)
			b.WriteString(" ") // a link is not a word that should be one
		}
	}
	return b.String()
}

// docTexts returns the text of all paragraphs and lists of a comment.
func docTexts(blocks []comment.Block, links *[]*comment.DocLink) string {
	var b strings.Builder
	for _, block := range blocks {
		switch block := block.(type) {
		case *comment.Paragraph:
			b.WriteString(docText(block.Text, links) + "\n")
		case *comment.List:
			for _, i := range block.Items {
				b.WriteString(docTexts(i.Content, links))
			}
		}
	}
	return b.String()
}

var (
	bracketed = regexp.MustCompile(`\[[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\]`)
	compound  = regexp.MustCompile(`\b[A-Za-z]\w*(\.[A-Za-z]\w*)*`)
	severals  = regexp.MustCompile(`^[A-Z]+[a-z0-9]+[A-Z]`) // ServeWriter, and not NATS
)

// resolves reports whether a word in the comment of a package names something that the package exports, or a
// package of the module that it imports.
func (m *goModule) resolves(p *goPackage, word string) bool {
	exported := !slices.ContainsFunc(strings.Split(word, "."), func(part string) bool { return !ast.IsExported(part) })
	if exported {
		return p.declares(word)
	}
	first, rest, _ := strings.Cut(word, ".")
	of := m.packages[strings.TrimPrefix(p.imports[first], modulePath)]
	return of != nil && ast.IsExported(rest) && of.declares(rest)
}

// The links in package comments lead to something, and what can be a link is one: each word such as
// ServeWriter, Writer.Submit or eventlog.Log that names something the package exports or imports.
func TestPackageComments(t *testing.T) {
	t.Parallel()
	m := readModule(t)
	checked := 0
	for _, p := range m.packages {
		for file, text := range p.docs {
			if p.name == "main" {
				continue
			}
			var links []*comment.DocLink
			parser := comment.Parser{
				LookupSym:     func(receiver, name string) bool { return p.declares(strings.TrimPrefix(receiver+"."+name, ".")) },
				LookupPackage: func(name string) (string, bool) { to, ok := p.imports[name]; return to, ok },
			}
			rest := docTexts(parser.Parse(text).Content, &links)
			for _, l := range links {
				checked++
				of := m.packages[strings.TrimPrefix(l.ImportPath, modulePath)]
				if name := strings.TrimPrefix(l.Recv+"."+l.Name, "."); of != nil && name != "" && !of.declares(name) {
					t.Errorf("%s: [%s] is not in %s", file, name, of.dir)
				}
			}
			for _, unresolved := range bracketed.FindAllString(rest, -1) {
				t.Errorf("%s: %s leads nowhere: the package exports no such name, and imports no such package", file, unresolved)
			}
			for _, word := range compound.FindAllString(rest, -1) {
				if (severals.MatchString(word) || strings.Contains(word, ".")) && m.resolves(p, word) {
					t.Errorf("%s: write [%s]", file, word)
				}
			}
		}
	}
	if checked < 80 {
		t.Errorf("the package comments have %d links: are they still found?", checked)
	}
}
