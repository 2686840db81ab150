package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/test/internal/module"
)

func parsed(t *testing.T) *list {
	t.Helper()
	l, err := parseList(listText)
	must.Succeed(t, err)
	return l
}

// found are the findings in a tree with one file, as "line kind: word".
func found(t *testing.T, name, text string) (all []string) {
	t.Helper()
	list, err := parsed(t).check(fstest.MapFS{name: {Data: []byte(text)}})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, f := range list {
		all = append(all, fmt.Sprintf("%d %s: %s", f.line, f.kind, f.word))
	}
	return all
}

// goFile is a package with some lines from line 3 on.
func goFile(lines ...string) string {
	return "package pkg\n\n" + strings.Join(lines, "\n") + "\n"
}

// TestTree is the check itself: there is no retired word.
func TestTree(t *testing.T) {
	root, err := module.Root()
	must.Succeed(t, err)
	all, err := parsed(t).check(os.DirFS(root))
	must.Succeed(t, err)
	for _, f := range all {
		t.Error(f)
	}
}

// TestPlaces plants a word in each place that is checked.
func TestPlaces(t *testing.T) {
	for _, test := range []struct {
		place, path, text string
		want              string // findings; empty if the text is allowed
	}{
		{"comment", "a/a.go", goFile("// It judges objects.", "var X int"), "3 comment: judges"},
		{"block comment", "a/a.go", goFile("/* One", "verdict. */", "var X int"), "4 comment: verdict"},
		{"comment at the end of a line", "a/a.go", goFile("var X int // owed"), "3 comment: owed"},
		{"phrase", "a/a.go", goFile("// The caller is told.", "var X int"), "3 comment: is told"},
		{"phrase over two lines", "a/a.go", goFile("// The caller is", "// told.", "var X int"), "3 comment: is told"},
		{"word in a compound", "a/a.go", goFile("// See owedRows.", "var X int"), "3 comment: owed"},
		{"document", "docs/a.md", "# A\n\nText of a\ncircle.\n", "4 doc: circle"},
		{"heading", "docs/a.md", "# The crew\n", "1 doc: crew"},
		{"table", "docs/a.md", "| a | b |\n|---|---|\n| made anew | b |\n", "3 doc: anew"},
		{"code of a document", "docs/a.md", "```\ncoppice scanner --redrive-age 1s\n```\n", "2 doc: redrive"},
		{"code in a sentence", "docs/a.md", "Set `--redrive-age`.\n", "1 doc: redrive"},
		{"flag in a sentence", "docs/a.md", "Set --redrive-age.\n", "1 doc: redrive"},
		{"help", "a/a.go", goFile(`var c = command{Short: "It is beside the rest"}`), "3 help: beside the"},
		{"long help", "a/a.go", goFile("var c = command{Long: `First", "and what is owed.`}"), "4 help: owed"},
		{"output of a command", "cmd/coppice/a.go", goFile(`const note = "pods/a is held by x"`), "3 help: is held by"},
		{"help of a metric", "a/a.go", goFile(`var o = opts{Help: "Rows that came to nothing."}`), "3 help: came to nothing"},
		{"comment of protobuf", "a.proto", "// A verdict.\nmessage A {}\n", "1 proto: verdict"},
		{"phrase of protobuf", "a.proto", "message A {\n  // It is\n  // told.\n  int32 a = 1; // x\n}\n", "2 proto: is told"},
		{"field of protobuf", "a.proto", "message A {\n  int64 judge_at = 1;\n}\n", "2 proto: judge"},
		{"message of protobuf", "a.proto", "message OwedCount {}\n", "1 proto: owed"},
		{"identifier", "a/a.go", goFile("type OwedRow struct{}"), "3 identifier: owed"},
		{"last word of an identifier", "a/a.go", goFile("func breakCircles() {}"), "3 identifier: circles"},
		{"identifier with underscores", "a/a.go", goFile("const do_evict = 1"), "3 identifier: evict"},
		{"capitals", "a/a.go", goFile("const HTTPVerdict = 1"), "3 identifier: verdict"},
		{"local identifier", "a/a.go", goFile("func f() { crew := 1; _ = crew }"), "3 identifier: crew"},
		{"file name", "a/foresight_test.go", "package a\n", "0 file name: foresight"},
		{"name of another file", "a/testdata/redrive.txt", "x\n", "0 file name: redrive"},
		{"directory", "crew/a.go", "package a\n", "0 file name: crew"},
		{"package name", "a/a.go", "package judge\n", "1 package name: judge"},
		{"error", "a/a.go", goFile(`var err = errors.New("it is unborn")`), "3 string: unborn"},
		{"durable in a sentence", "a/a.go", goFile(`const d = "consumer work-redrive %s"`), "3 string: redrive"},
		{"phrase in an error", "a/a.go", goFile(`var err = fmt.Errorf("%s: it is told", name)`), "3 string: is told"},
		{"metric", "a/a.go", goFile(`const name = "coppice_graph_owed_rows"`), "3 string: owed"},
		{"subject", "a/a.go", goFile(`const s = "coppice.default.work.evict"`), "3 string: evict"},
		{"durable", "a/a.go", goFile("const d = `work-redrive`"), "3 string: redrive"},
		{"line of a literal", "a/a.go", goFile("const s = `first", "owed`"), "4 string: owed"},
		{"import path", "a/a.go", goFile(`import _ "example.com/x/crew"`), "3 string: crew"},
		{"label of a struct", "a/a.go", goFile("type t struct { A int `json:\"owed\"` }"), "3 string: owed"},
		{"script", "a/testdata/a.txt", "a\njudge pods/web\n", "2 text: judge"},
		{"comment of a script", "a/testdata/a.txt", "# It is\n# told.\njudge\n", "1 text: is told|3 text: judge"},
		{"comment of an archive", "a/testdata/a.txtar", "x\n# held by it\n", "2 text: held by"},
		{"catalogue", "test/conformance/catalogue.txt", "A1.1  Its circle\nis told.\n", "1 text: circle|2 text: is told"},
		{"page of the catalogue", "docs/conformance.md", "- A: anew\n", "1 doc: anew"},
		{"configuration", "deploy/a.conf", "publish: coppice.*.work.evict\n", "1 text: evict"},

		{"part of a word", "a/a.go", goFile("// allowed, followed, crews-quarters", "var allowed, slowest int"), ""},
		{"hyphenated word", "a/a.go", goFile("// An in-flight commit, of told-and-retold length.", "var X int"), ""},
		{"common word", "a/a.go", goFile("// It tells the whole of a lot: land, fate, patience, apart.", "var X int"), ""},
		{"common word as a name", "a/a.go", goFile("type held struct{ holder, told, outline int }"), ""},
		{"phrase in a command of a script", "a/testdata/a.txt", "create is told\n", ""},
		{"phrase in a string of a test", "a/a_test.go", goFile(`var s = "is told beside it"`), ""},
		{"phrase in a string of a command's test", "cmd/coppice/a_test.go", goFile(`var s = "is told beside it"`), ""},
		{"end of a sentence", "a/a.go", goFile("// That is. Told so.", "var X int"), ""},
		{"cache", "a/a.go", goFile("// The cache evicts old rows.", "func cacheEvict() {}"), ""},
		{"package of a cache", "cache/a.go", goFile("func evict() {}", "// Evicts rows."), ""},
		{"lock", "a/a.go", goFile("// The lock is held by the writer, who holds it.", "var X int"), ""},
		{"lease", "docs/a.md", "The lease is held by one writer.\n", ""},
		{"generated code", "a/a.pb.go", goFile("type OwedRow struct{}"), ""},
		{"recording", "internal/oracle/testdata/a.txt", "judge\n", ""},
		{"not text", "a/a.bin", "\x00owed", ""},
	} {
		t.Run(test.place, func(t *testing.T) {
			var want []string
			if test.want != "" {
				want = strings.Split(test.want, "|")
			}
			if got := found(t, test.path, test.text); !slices.Equal(got, want) {
				t.Errorf("%s:\n%s\nfound %q, want %q", test.path, test.text, got, want)
			}
		})
	}
}

// TestExceptions: an exception needs a reason, and something that it allows.
func TestExceptions(t *testing.T) {
	for _, test := range []struct {
		path, text, want string
	}{
		{"a.go", goFile("var owed int //words:allow the name is another project's"), ""},
		{"a.go", goFile("//words:allow the name is another project's", "var owed int"), ""},
		{"a.go", goFile("// X is what is owed.", "//", "//words:allow quoted", "var owed int"), "3 comment: owed"},
		{"a.go", goFile("//words:allow", "var owed int"), "3 exception: words:allow|4 identifier: owed"},
		{"a.go", goFile("//words:allow a reason", "", "var owed int"), "3 exception: words:allow|5 identifier: owed"},
		{"a.go", goFile("//words:allow a reason", "var x int"), "3 exception: words:allow"},
		{"a.md", "<!-- words:allow a quotation -->\nThe crew.\n", ""},
		{"a.md", "<!-- words:allow -->\nThe crew.\n", "1 exception: words:allow|2 doc: crew"},
		{"a.proto", "message A {\n  //words:allow of another format\n  int32 owed = 1;\n}\n", ""},
		{"a.conf", "# words:allow of another program\ncrew\n", ""},
	} {
		if got := strings.Join(found(t, test.path, test.text), "|"); got != test.want {
			t.Errorf("%s:\n%s\nfound %q, want %q", test.path, test.text, got, test.want)
		}
	}
}

func TestListErrors(t *testing.T) {
	for text, want := range map[string]string{
		"[names]\nowed\n":                      "words.txt:2: a line needs",
		"owed -> x\n":                          "words.txt:1: a line before the first section",
		"[names]\nis owed -> x\n":              "words.txt:2: names are single words",
		"[phrases]\na b -> x\n\na b, c -> y\n": "words.txt:4: listed twice: a b",
		"[skip]\nsvg -> \n":                    "words.txt:2: a line needs",
	} {
		if _, err := parseList(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestSplit(t *testing.T) {
	for code, want := range map[string]string{
		"OwedRow": "owed row", "judgeAt": "judge at", "HTTPServer": "http server", "JudgeHTTP": "judge http",
		"a_owed2b": "a owed b", "work.evict": "work evict", "Ärger": "ärger", "": "",
	} {
		if got := strings.Join(split(code), " "); got != want {
			t.Errorf("%q: %q, want %q", code, got, want)
		}
	}
}
