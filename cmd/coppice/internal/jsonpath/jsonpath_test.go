package jsonpath_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/jsonpath"
)

// document is the one of kubectl's documentation, with a label whose name has dots.
const document = `{
  "kind": "List",
  "items": [
    {"kind": "None", "metadata": {"name": "127.0.0.1", "labels": {"kubernetes.io/hostname": "127.0.0.1", "a-b": "x"}},
     "status": {"capacity": {"cpu": "4"}, "addresses": [{"type": "LegacyHostIP", "address": "127.0.0.1"}]}},
    {"kind": "None", "metadata": {"name": "127.0.0.2"},
     "status": {"capacity": {"cpu": "8"}, "replicas": 3, "addresses": [
       {"type": "LegacyHostIP", "address": "127.0.0.2"}, {"type": "another", "address": "127.0.0.3"}]}}
  ],
  "users": [
    {"name": "myself", "user": {}},
    {"name": "e2e", "user": {"username": "admin", "password": "secret"}, "active": true}
  ]
}`

func decode(t *testing.T, text string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		`kind is {.kind}`:           "kind is List",
		`{.kind}`:                   "List",
		`{$.kind}`:                  "List",
		`{@.kind}`:                  "List",
		`{['kind']}`:                "List",
		`{.items[*].metadata.name}`: "127.0.0.1 127.0.0.2",
		`{.items[*]['metadata.name', 'status.capacity']}`:                      `127.0.0.1 {"cpu":"4"} 127.0.0.2 {"cpu":"8"}`,
		`{.users[?(@.name=="e2e")].user.password}`:                             "secret",
		`{.users[?(@.name=='e2e')].user.password}`:                             "secret",
		`{.users[?( @.name != "e2e" )].name}`:                                  "myself",
		`{.users[?(@.active==true)].name}`:                                     "e2e",
		`{.users[?(@.active)].name}`:                                           "e2e",
		`{.items[?(@.status.replicas>2)].metadata.name}`:                       "127.0.0.2",
		`{.items[?(@.metadata.labels.a-b=="x")].metadata.name}`:                "127.0.0.1",
		`{.items[?(@.status.addresses[0].address=="127.0.0.2")].kind}`:         "None",
		`{range .items[*]}[{.metadata.name}, {.status.capacity}] {end}`:        `[127.0.0.1, {"cpu":"4"}] [127.0.0.2, {"cpu":"8"}] `,
		`{range .items[*]}{.metadata.name}{"\t"}{.status.replicas}{"\n"}{end}`: "127.0.0.1\t\n127.0.0.2\t3\n",
		`{range .items[*]}{range .status.addresses[*]}{.type},{end};{end}`:     "LegacyHostIP,;LegacyHostIP,another,;",
		`{range .items[*]}{$.kind}{@.kind} {end}`:                              "ListNone ListNone ",
		`{range .users[*].name}{@}{'\n'}{end}`:                                 "myself\ne2e\n",
		`{.items[*].metadata.labels.kubernetes\.io/hostname}`:                  "127.0.0.1",
		`{.items[0].metadata.labels['kubernetes\.io/hostname']}`:               "127.0.0.1",
		`{.items[0].metadata.labels.a-b}`:                                      "x",
		`{.items[-1].metadata.name}`:                                           "127.0.0.2",
		`{.items[0:1].metadata.name}`:                                          "127.0.0.1",
		`{.items[-1:].metadata.name}`:                                          "127.0.0.2",
		`{.items[0,1].metadata.name}`:                                          "127.0.0.1 127.0.0.2",
		`{..address}`:                                                          "127.0.0.1 127.0.0.2 127.0.0.3",
		`{.users[1].user.*}`:                                                   "secret admin",
		`{.nope.nothing}`:                                                      "",
		`{.items[9].metadata}`:                                                 "",
		`{range .nope[*]}x{end}`:                                               "",
		`{"{}"}{'it\'s'}`:                                                      "{}it's",
		`{.users[1].active}`:                                                   "true",
	} {
		p, err := jsonpath.Parse(template)
		if err != nil {
			t.Errorf("%s: %v", template, err)
			continue
		}
		var b strings.Builder
		if err := p.Execute(&b, decode(t, document)); err != nil {
			t.Error(err)
		}
		got := b.String()
		if strings.Contains(template, "user.*") { // members have no order
			words := strings.Fields(got)
			slices.SortFunc(words, func(a, b string) int { return strings.Compare(b, a) })
			got = strings.Join(words, " ")
		}
		if got != want {
			t.Errorf("%s: %q, want %q", template, got, want)
		}
	}
}

func TestRefusedTemplates(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		`.metadata.name`:                "write {.metadata.name}",
		`{.metadata.name`:               "closing }",
		`{range .items[*]}{.kind}`:      "{end} of {range} is missing",
		`{range}{end}`:                  "{range} names no path",
		`{.kind}{end}`:                  "{end} without {range}",
		`{}`:                            "{} is empty",
		`{len .items}`:                  "{len .items} is not understood",
		`{.items[}`:                     "closing ]",
		`{.items[]}`:                    "write [*] for all elements",
		`{.items[name]}`:                "[name] is not understood",
		`{.items[?(@.a==1 && @.b==2)]}`: "&& is not supported",
		`{.items[?(@.a=~"x")]}`:         "=~ is not supported",
		`{.items[?@.a==1]}`:             "in parentheses",
		`{.items[?(name=="x")]}`:        `"name" in a condition is not understood`,
		`{.items[?(@.a[*]=="x")]}`:      "@",
		`{..}`:                          "no name follows the dots",
		`{.a..}`:                        "no name follows the dots",
		`{"\q"}`:                        "escape",
		`{"text}`:                       "closing",
	} {
		if _, err := jsonpath.Parse(template); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", template, err, want)
		}
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	for _, text := range []string{".items[0].metadata.name", "items[0].metadata.name", "{.items[0].metadata.name}", " $.items[0].metadata.name"} {
		p, err := jsonpath.ParsePath(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := p.Select(decode(t, document)); len(got) != 1 || got[0] != "127.0.0.1" {
			t.Errorf("%s: %v", text, got)
		}
	}
	for text, want := range map[string]string{"": "the path is empty", "{.a": "closing }", "a b[": "closing ]"} {
		if _, err := jsonpath.ParsePath(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`{range .a[*]}{.b['c','d']}{end}`, `{.a[?(@.b=="c")]..d[1:2]}`, `{"\n"}{$}`} {
		f.Add(s)
	}
	var v any
	if err := json.Unmarshal([]byte(document), &v); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := jsonpath.Parse(text)
		if err != nil {
			return
		}
		if err := p.Execute(&strings.Builder{}, v); err != nil {
			t.Fatal(err)
		}
	})
}

func TestColumns(t *testing.T) {
	t.Parallel()
	columns, err := jsonpath.ParseColumns(`KIND:.kind,NAMES:.items[*].metadata.name,TWO:{.items[0,1].kind},NOPE:nope,N:.items[1].status.replicas`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range columns {
		got = append(got, c.Header+"="+c.Value(decode(t, document)))
	}
	want := []string{"KIND=List", "NAMES=127.0.0.1,127.0.0.2", "TWO=None,None", "NOPE=<none>", "N=3"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, text := range []string{"", "NAME", ":.a", "NAME:", "NAME:.a["} {
		if _, err := jsonpath.ParseColumns(text); err == nil || !strings.Contains(err.Error(), "custom-columns") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	sorted := [][]any{nil, {json.Number("-1")}, {2.5}, {json.Number("10")}, {"a"}, {"b"}, {true}}
	for i, a := range sorted {
		for j, b := range sorted {
			if got := jsonpath.Compare(a, b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%v, %v: %d", a, b, got)
			}
		}
	}
}
