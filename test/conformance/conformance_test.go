package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/test/internal/module"
)

func TestPageIsCurrent(t *testing.T) {
	t.Parallel()
	root, err := module.Root()
	must.Succeed(t, err)
	page, citations, err := build(root)
	must.Succeed(t, err)
	if len(citations) < 200 {
		t.Errorf("%d citations were found", len(citations))
	}
	if err := compare(filepath.Join(root, filepath.FromSlash(pageFile)), page); err != nil {
		t.Error(err)
	}
}

func TestMentions(t *testing.T) {
	t.Parallel()
	for comment, want := range map[string]string{
		"A5.2: removed at once.":                        "[A5.2]",
		"C070, A5 step 3: marked,\nand kept. And more.": "[C070 A5 step 3]",
		"First this.\nX01: ... and that, ...":           "[X01]",
		"A1.1: one.\nA1.2: two.":                        "[A1.1]; [A1.2]",
		"What A1.1 says: nothing.":                      "",
		"Removed at once (A5.2).":                       "",
		"A5.2 is not cited here.":                       "",
		"A1.1 to A1.3: several.":                        "error",
		"A12.6 [T8]: solid.":                            "error",
		"so says\nA1.1: in the midst.":                  "error",
		"A1.1:":                                         "error",
		"Aims: none.":                                   "",
	} {
		found, err := mentions(strings.Split(comment, "\n"))
		var parts []string
		for _, m := range found {
			parts = append(parts, fmt.Sprint(m.ids))
		}
		got := strings.Join(parts, "; ")
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q is %q, want %q", comment, got, want)
		}
	}
}

const playing = `package p

func TestScripts(t *testing.T) { datadriven.Walk(t, "testdata", nil) }
`

func TestCollect(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		path, text, want string
	}{
		"a case":              {"p/testdata/a.txt", "# A1.1: wiped.\n\ncreate\n----\nwiped\n", "A1.1 p TestScripts/a"},
		"several commands":    {"p/testdata/a.txt", "# A1.1: wiped.\nnew\n----\n\ncreate\n----\nwiped\n", "A1.1 p TestScripts/a"},
		"output":              {"p/testdata/a.txt", "create\n----\n----\n# A1.1: printed.\n\n# A1.2: printed.\n----\n----\n", ""},
		"nothing is expected": {"p/testdata/a.txt", "# A1.1: wiped.\ncreate\n----\n\n# Other.\nget\n----\nx\n", "no case that expects anything"},
		"no case":             {"p/testdata/a.txt", "create\n----\nx\n\n# A1.1: wiped.\n", "no case that expects anything"},
		"no test plays it":    {"q/testdata/a.txt", "# A1.1: wiped.\ncreate\n----\nx\n", "no test plays this script"},
		"another module":      {"r/testdata/a.txt", "# A1.1: wiped.\ncreate\n----\nx\n", ""},
		"a statement":         {"p/b_test.go", "package p\n\nfunc TestB() {\n\t// A1.1: wiped.\n\tf()\n}\n", "A1.1 p TestB"},
		"a whole test":        {"p/b_test.go", "package p\n\n// A1.1: wiped.\nfunc TestB() {}\n", "A1.1 p TestB"},
		"a string":            {"p/b_test.go", "package p\n\nfunc TestB() { f(`\n// A1.1: wiped.\n`) }\n", ""},
		"not a test":          {"p/b_test.go", "package p\n\nfunc check() {\n\t// A1.1: wiped.\n\tf()\n}\n", "not by a test"},
		"not at a statement":  {"p/b_test.go", "package p\n\nfunc TestB() {\n\tf()\n\t// A1.1: wiped.\n}\n", "not above one of its statements"},
	} {
		found, err := collect(fstest.MapFS{
			"p/p_test.go": {Data: []byte(playing)}, "r/go.mod": {Data: []byte("module r\n")}, tc.path: {Data: []byte(tc.text)},
		})
		got := fmt.Sprint(err)
		if err == nil {
			got = ""
			for _, c := range found {
				got += fmt.Sprint(c.ID, " ", c.Package, " ", c.Test)
			}
		}
		if (tc.want == "" || err == nil) && got != tc.want || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// The page is not written if the catalogue and the tests contradict each other.
func TestDisagreement(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		item item
		ids  []string
		want string
	}{
		"shown":             {item{id: "A1.1"}, []string{"A1.1"}, ""},
		"not shown":         {item{id: "A1.1"}, nil, "no test shows it"},
		"open":              {item{id: "A1.1", remark: open}, nil, ""},
		"open, but shown":   {item{id: "A1.1", remark: open}, []string{"A1.1"}, `says "open"`},
		"none, but shown":   {item{id: "A1.1", remark: none}, []string{"A1.1"}, `says "none"`},
		"partly, not shown": {item{id: "A1.1", remark: partly}, nil, "no test shows it"},
		"no such id":        {item{id: "A1.1"}, []string{"A1.1", "A1.16"}, "no behaviour A1.16"},
		"no such property":  {item{id: "A1.1"}, []string{"A1.1", "S16"}, "no behaviour S16"},
	} {
		var citations []citation
		for _, id := range tc.ids {
			citations = append(citations, citation{ID: id})
		}
		_, err := render([]section{{items: []item{tc.item}}}, citations)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

func TestCatalogue(t *testing.T) {
	t.Parallel()
	without := func(id string) string {
		var lines []string
		for line := range strings.Lines(catalogueText) {
			if !strings.HasPrefix(line, id+"  ") {
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, "")
	}
	for name, tc := range map[string]struct{ text, want string }{
		"an id is missing":     {without("C042"), "C042 is missing"},
		"an id is there twice": {catalogueText + "C042  Again.\n", "C042 is there twice"},
		"no such id":           {catalogueText + "C102  More.\n", "C102 is there twice, or is no id"},
		"no such remark":       {catalogueText + "  later: Perhaps.\n", "neither gateway"},
		"twice the same":       {catalogueText + "  also: This.\n  also: That.\n", "neither gateway"},
		"a property":           {without("L6"), "L6 is missing"},
		"too many": {
			strings.ReplaceAll(catalogueText, "  gateway: ", "  none: "), "behaviours without a counterpart; at most 25",
		},
	} {
		if _, err := parseCatalogue(tc.text); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// A cited test must exist and pass.
func TestRunCited(t *testing.T) {
	t.Parallel()
	root, err := module.Root()
	must.Succeed(t, err)
	var out strings.Builder
	err = runCited(testkit.Context(t), root, []citation{
		{Package: "internal/selector", Test: "TestMatches"}, {Package: "internal/selector", Test: "TestNever"},
	}, nil, &out)
	if err == nil || !strings.Contains(err.Error(), "internal/selector TestNever: not there") || strings.Contains(err.Error(), "TestMatches") {
		t.Errorf("%v\n%s", err, &out)
	}
}

// readResults reads the results of a run of all tests and prints the failed ones.
func TestReadResults(t *testing.T) {
	t.Parallel()
	const pass = `{"Action":"output","Package":"github.com/coppice-gc/coppice/a","Test":"TestX","Output":"fine\n"}
{"Action":"pass","Package":"github.com/coppice-gc/coppice/a","Test":"TestX","Elapsed":1}
{"Action":"skip","Package":"github.com/coppice-gc/coppice/a","Test":"TestX/y"}
{"Action":"pass","Package":"github.com/coppice-gc/coppice/a","Elapsed":1.5}
`
	var out strings.Builder
	got, err := readResults(strings.NewReader(pass), &out)
	if err != nil || got["a"]["TestX"] != "pass" || got["a"]["TestX/y"] != "skip" || strings.Contains(out.String(), "fine") {
		t.Errorf("read %v, %v, printed %q", got, err, out.String())
	}
	const fail = pass + `{"Action":"output","Package":"github.com/coppice-gc/coppice/b","Test":"TestZ","Output":"wrong\n"}
{"Action":"fail","Package":"github.com/coppice-gc/coppice/b","Elapsed":2}
`
	out.Reset()
	if _, err := readResults(strings.NewReader(fail), &out); err == nil || !strings.Contains(out.String(), "wrong") || !strings.Contains(out.String(), "fail b") {
		t.Errorf("a failure: %v, printed %q", err, out.String())
	}
	out.Reset()
	const broken = pass + `{"Action":"build-output","ImportPath":"x","Output":"undefined: y\n"}
{"Action":"build-fail","ImportPath":"x"}
`
	if _, err := readResults(strings.NewReader(broken), &out); err == nil || !strings.Contains(out.String(), "undefined: y") {
		t.Errorf("a package that does not compile: %v, printed %q", err, out.String())
	}
	if _, err := readResults(strings.NewReader(""), &out); err == nil {
		t.Error("no results are no error")
	}
}
