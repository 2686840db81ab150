package docs_test

import (
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// block is a fenced block of a document, or a code block of a package comment.
type block struct {
	file string
	line int    // where the block begins
	lang string // what follows the fence
	text string
	// comment: the block is in a package comment.
	comment bool
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.file, b.line) }

// first returns the first line of a block.
func (b block) first() string {
	line, _, _ := strings.Cut(strings.TrimLeft(b.text, "\n"), "\n")
	return line
}

// shown is a command that a document or a comment shows.
type shown struct {
	file   string
	line   int
	text   string   // on one line, without its comment
	output []string // of a transcript: the lines after the command
	// inline: the command is in a sentence. comment: it is in a Go comment.
	// script: it is in a script, which sets variables, for example.
	inline, comment, script bool
	dir                     string // in which it runs, below the module's root
}

func (s shown) String() string { return fmt.Sprintf("%s:%d: %s", s.file, s.line, s.text) }

// walk calls f with each file of the module that ends with ext, by its path below the
// module's root.
func walk(t *testing.T, ext string, f func(name string, data []byte)) {
	t.Helper()
	err := filepath.WalkDir(module, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(module, path)
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(d.Name(), ".") && name != "." && name != ".github"
		if d.IsDir() && (hidden || d.Name() == "testdata" || d.Name() == "node_modules" || name == "bin") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ext {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f(filepath.ToSlash(name), data)
		return nil
	})
	must.Succeed(t, err)
}

// split returns the fenced blocks of a document, and the document with these blocks
// replaced by empty lines.
func split(file, text string) (blocks []block, prose string) {
	var open *block
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		fence := strings.TrimSpace(line)
		switch {
		case open == nil && strings.HasPrefix(fence, "```"):
			open = &block{file: file, line: i + 1, lang: strings.TrimPrefix(fence, "```")}
		case open != nil && fence == "```":
			blocks, open = append(blocks, *open), nil
		case open != nil:
			open.text += line + "\n"
		default:
			continue
		}
		lines[i] = ""
	}
	return blocks, strings.Join(lines, "\n")
}

var trailing = regexp.MustCompile(`\s+# .*$`)

// programs begin the lines of package comments that are commands.
var programs = regexp.MustCompile(`^(coppice|make|nats|go|spec/check) [a-z.-]`)

// wide separates a command in a package comment from what is said of it.
var wide = regexp.MustCompile(`\s{2,}.*$`)

// script is the language of blocks that are scripts for bash: TestInstallation, or the nightly test of the
// directory, runs them as they are. TestRunbookCommands runs the commands of coppice in those of docs/runbooks.
const script = "bash"

// unit is the language of blocks that are units of systemd.
const unit = "ini"

// redirection matches the end of a command in a script: where its output goes.
var redirection = regexp.MustCompile(`( 2?> \S+)?( &)?$`)

// commands returns the commands of a block: the lines of a block of sh, or those that
// begin with "$ " with the output after each, or in a package comment those that begin
// with a program. Of a script it returns the lines that begin with coppice.
func (b block) commands() (list []shown) {
	lines := strings.Split(strings.TrimRight(b.text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		at, text := i, strings.TrimSpace(lines[i])
		prompt := strings.HasPrefix(text, "$ ")
		text = strings.TrimPrefix(text, "$ ")
		for strings.HasSuffix(text, `\`) && i+1 < len(lines) {
			i++
			text = strings.TrimSuffix(text, `\`) + " " + strings.TrimSpace(lines[i])
		}
		text = trailing.ReplaceAllString(text, "")
		switch {
		case b.comment && programs.MatchString(text) && !strings.HasPrefix(text, "coppice says "):
			text = wide.ReplaceAllString(text, "")
		case b.comment:
			continue
		case b.lang == script:
			if strings.HasPrefix(text, "coppice ") {
				text, _, _ = strings.Cut(text, " <<")
				text, _, _ = strings.Cut(text, " | ")
				list = append(list, shown{file: b.file, line: b.line + at + 1, text: redirection.ReplaceAllString(text, ""), script: true})
			}
			continue
		case b.lang == unit:
			if command, ok := strings.CutPrefix(text, "ExecStart=/usr/bin/"); ok {
				list = append(list, shown{file: b.file, line: b.line + at + 1, text: command, script: true})
			}
			continue
		case !prompt && b.lang != "sh":
			if len(list) > 0 {
				list[len(list)-1].output = append(list[len(list)-1].output, lines[at])
			}
			continue
		case text == "" || strings.HasPrefix(text, "#"):
			continue
		}
		list = append(list, shown{file: b.file, line: b.line + at + 1, text: text, comment: b.comment})
	}
	return list
}

// sentence matches a command in a sentence, between backquotes.
var sentence = regexp.MustCompile("`((?:coppice|make|go (?:run|test|build|install|tool|generate)|chrt|spec/check|\\.ci/(?:run|nightly)|test/bench/run)(?:\\s[^`]*)?)`")

// inlineCommands returns the commands that are named in sentences.
func inlineCommands(file, prose string, comment bool) (list []shown) {
	for _, m := range sentence.FindAllStringSubmatchIndex(prose, -1) {
		text := strings.Join(strings.Fields(prose[m[2]:m[3]]), " ")
		if text == "coppice" || text == "make" {
			continue // the program itself
		}
		list = append(list, shown{file: file, line: 1 + strings.Count(prose[:m[0]], "\n"), text: text, inline: true, comment: comment})
	}
	return list
}

// pages returns the blocks of all documents, their prose by file, and their commands.
func pages(t *testing.T) (blocks []block, prose map[string]string, commands []shown) {
	t.Helper()
	prose = map[string]string{}
	walk(t, ".md", func(name string, data []byte) {
		of, rest := split(name, string(data))
		blocks, prose[name] = append(blocks, of...), rest
		for _, b := range of {
			commands = append(commands, b.commands()...)
		}
		commands = append(commands, inlineCommands(name, rest, false)...)
	})
	return blocks, prose, commands
}

// comments returns the code blocks of all package comments and the examples in the help
// of commands, and the commands of these and of all other comments in Go files.
func comments(t *testing.T) (blocks []block, commands []shown) {
	t.Helper()
	walk(t, ".go", func(name string, data []byte) {
		if strings.HasSuffix(name, ".pb.go") {
			return
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, data, parser.ParseComments|parser.SkipObjectResolution)
		must.Succeed(t, err)
		for _, c := range f.Comments {
			for _, s := range inlineCommands(name, c.Text(), true) {
				s.line += fset.Position(c.Pos()).Line - 1
				commands = append(commands, s)
			}
		}
		for _, b := range append(codeBlocks(fset, f), examples(fset, f)...) {
			b.file = name
			blocks, commands = append(blocks, b), append(commands, b.commands()...)
		}
	})
	return blocks, commands
}

// examples returns the examples in the help of commands.
func examples(fset *token.FileSet, f *ast.File) (blocks []block) {
	ast.Inspect(f, func(n ast.Node) bool {
		pair, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		key, _ := pair.Key.(*ast.Ident)
		value, _ := pair.Value.(*ast.BasicLit)
		if key != nil && key.Name == "Example" && value != nil {
			if text, err := strconv.Unquote(value.Value); err == nil {
				blocks = append(blocks, block{line: fset.Position(value.Pos()).Line - 1, text: text, comment: true})
			}
		}
		return true
	})
	return blocks
}

func codeBlocks(fset *token.FileSet, f *ast.File) (blocks []block) {
	if f.Doc == nil {
		return nil
	}
	for _, b := range new(comment.Parser).Parse(f.Doc.Text()).Content {
		if code, ok := b.(*comment.Code); ok {
			blocks = append(blocks, block{line: fset.Position(f.Doc.Pos()).Line, text: code.Text, comment: true})
		}
	}
	return blocks
}

// pictures are the blocks that hold no code: their files and first lines.
var pictures = map[string]string{
	"ARCHITECTURE.md":             " clients: cmd/coppice, client/, any NATS client",
	"docs/design/0067-console.md": "browser tabs ── HTTP, one WebSocket each ── console ── one connection per user ── NATS ── graph service",
	"docs/api.md":                 "coppice.<realm>.api.<actor>.<verb>.<group>.<plural>.<namespace>",
	// Sequences and times differ from run to run: cmd/coppice/testdata/script/whatif.txtar
	// checks such lines.
	"docs/recordings.md": "configmaps/child (default): removed in the log, kept under these settings",
}

// Every block is of a sort that a test checks: Go by test/snippets, commands and
// manifests by this package.
func TestEveryBlockIsChecked(t *testing.T) {
	t.Parallel()
	blocks, _, _ := pages(t)
	seen := map[string]bool{}
	for _, b := range blocks {
		switch {
		case b.lang == "go", b.lang == "sh", b.lang == "yaml", b.lang == "json":
		case b.lang == script && (b.file == installation || strings.HasPrefix(b.file, "deploy/") || strings.HasPrefix(b.file, "docs/runbooks/")):
		case b.lang == unit && strings.HasPrefix(b.text, "["): // of systemd; the commands are checked
		case b.lang == "" && strings.HasPrefix(b.text, "$ "):
		case b.lang == script && (b.file == installation || strings.HasPrefix(b.file, "deploy/")):
		case b.lang == "text" && b.file == "docs/security.md": // subjects: test/trust generates these blocks
		case b.lang == "" && pictures[b.file] == b.first():
			seen[b.file] = true
		default:
			t.Errorf("%s: %q: no test checks this block: begin it with ```go, ```sh, ```bash, ```yaml, ```json or a line \"$ command\", or add it to pictures", b, b.first())
		}
	}
	for file := range pictures {
		if !seen[file] {
			t.Errorf("%s has no block that begins as pictures says", file)
		}
	}
}

// Blocks and commands are found where documents have them.
func TestBlocks(t *testing.T) {
	t.Parallel()
	blocks, prose := split("x.md", "Use `coppice get\npods -v`.\n```sh\ncoppice up   # starts\n# why\nmake \\\n  ci\n```\n\n```\n$ coppice a &\none\n two\n$ b\n```\n")
	if len(blocks) != 2 || blocks[0].line != 3 || strings.Contains(prose, "make") {
		t.Fatalf("got %v, %q", blocks, prose)
	}
	list := inlineCommands("x.md", prose, false)
	for _, b := range blocks {
		list = append(list, b.commands()...)
	}
	list = append(list, block{comment: true, text: "go run ./a -b   does it\nmake is a program\ncoppice says no\n"}.commands()...)
	var got []string
	for _, s := range list {
		got = append(got, fmt.Sprintf("%d %s %q", s.line, s.text, s.output))
	}
	want := []string{"1 coppice get pods -v []", "4 coppice up []", "6 make  ci []", `11 coppice a & ["one" " two"]`, `14 b []`,
		"1 go run ./a -b []", "2 make is a program []"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
