package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// kubectlDocument has a table of the flags of kubectl, which TestKubectlFlags -rewrite writes.
const kubectlDocument = "../../docs/kubectl.md"

// Each flag of kubectl exists with the same shorthand in the command of the same name, or it is in flagsNotOffered and
// a call with it is refused with the reason. The table of docs/kubectl.md has all of them.
func TestKubectlFlags(t *testing.T) {
	t.Parallel()
	commands := map[string]*cobra.Command{}
	eachCommand(func(name string, c *cobra.Command) { commands[name] = c })
	used := map[flagNotOffered]bool{}
	rows := map[string]*flagRow{}
	datadriven.RunTest(t, "../../internal/oracle/testdata/commands/helps.txt", func(t *testing.T, d *datadriven.TestData) string {
		t.Helper()
		if d.Cmd != "flags" {
			return d.Expected
		}
		for line := range strings.Lines(d.Expected) {
			words := strings.Fields(line)
			command, name, shorthand := words[0], strings.TrimPrefix(words[1], "--"), ""
			if len(words) > 2 {
				shorthand = strings.TrimPrefix(words[2], "-")
			}
			row := rows[name]
			if row == nil {
				row = &flagRow{}
				rows[name] = row
			}
			row.shorthand = cmp.Or(row.shorthand, shorthand)
			asked := command
			if command == "options" { // those of all commands
				command, asked = everyCommand, "get"
			}
			c := commands[asked]
			c.InheritedFlags() // merges them
			if f := c.Flags().Lookup(name); f != nil {
				if row.in = append(row.in, command); f.Shorthand != shorthand {
					t.Errorf("coppice %s --%s: the shorthand is %q; that of kubectl is %q", command, name, f.Shorthand, shorthand)
				}
				continue
			}
			missing, known := notOfferedFlag(asked, name)
			if !known || missing.shorthand != shorthand && name != "v" { // -v is the shorthand of another flag
				t.Errorf("coppice %s has no --%s, with the shorthand %q: write a row of flagsNotOffered", command, name, shorthand)
				continue
			}
			used[missing] = true
			row.missing(command, missing.why)
			if missing.shorthand != "" {
				refusesFlag(t, asked, "-"+shorthand, missing)
			}
			refusesFlag(t, asked, "--"+name, missing)
		}
		return d.Expected
	})
	for _, f := range flagsNotOffered {
		if !used[f] {
			t.Errorf("no command needs the row of flagsNotOffered for --%s: kubectl does not have the flag, or Coppice has it", f.name)
		}
	}
	compareFlags(t, rows)
}

// Advice with -f is only for commands that have it.
func TestAdviceNamesFlags(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"explain", "events", "tree"} {
		var stderr strings.Builder
		if code := Main([]string{command, "-k", "x"}, strings.NewReader(""), io.Discard, &stderr); code != 2 || !strings.HasPrefix(stderr.String(), "coppice: unknown shorthand flag: 'k' in -k\n") {
			t.Errorf("coppice %s -k: exit code %d, and it prints %s", command, code, &stderr)
		}
	}
}

// refusesFlag checks that a call with a flag of kubectl is refused with the reason.
func refusesFlag(t *testing.T, command, given string, f flagNotOffered) {
	t.Helper()
	var stderr strings.Builder
	code := Main([]string{command, given, "x"}, strings.NewReader(""), io.Discard, &stderr)
	why := strings.ReplaceAll(f.why, "COMMAND", command)
	if want := fmt.Sprintf("coppice: %s has no --%s: %s\n", command, f.name, why); code != 2 || !strings.HasPrefix(stderr.String(), want) {
		t.Errorf("coppice %s %s: exit code %d, and it prints %s; want 2 and %s", command, given, code, &stderr, want)
	}
}

// everyCommand stands for the commands in the rows of global flags.
const everyCommand = "all commands"

// flagRow is the row of a flag in the table of the document.
type flagRow struct {
	shorthand string
	in        []string // the commands that have the flag
	reasons   []string // why others have not
	not       map[string][]string
}

func (r *flagRow) missing(command, why string) {
	if r.not == nil {
		r.not = map[string][]string{}
	}
	if r.not[why] == nil {
		r.reasons = append(r.reasons, why)
	}
	r.not[why] = append(r.not[why], command)
}

func (r *flagRow) String() string {
	var reasons []string
	for _, why := range r.reasons {
		reasons = append(reasons, strings.Join(r.not[why], ", ")+": "+strings.ReplaceAll(why, "|", `\|`))
	}
	return fmt.Sprintf("%s | %s |", strings.Join(r.in, ", "), strings.Join(reasons, "<br>"))
}

// compareFlags compares the table of the document with rows, or writes it.
func compareFlags(t *testing.T, rows map[string]*flagRow) {
	t.Helper()
	var names []string
	for name := range rows {
		names = append(names, name)
	}
	slices.Sort(names)
	table := "| flag | works in | does not exist in |\n|---|---|---|\n"
	for _, name := range names {
		short := ""
		if rows[name].shorthand != "" {
			short = ", `-" + rows[name].shorthand + "`"
		}
		table += fmt.Sprintf("| `--%s`%s | %s\n", name, short, rows[name])
	}
	document, err := os.ReadFile(kubectlDocument)
	must.Succeed(t, err)
	text, _, _ := strings.Cut(string(document), "| flag |")
	if string(document) == text+table {
		return
	}
	if flag.Lookup("rewrite").Value.String() != "true" {
		t.Fatalf("docs/kubectl.md does not have the flags: go test ./cmd/coppice -run TestKubectlFlags -rewrite")
	}
	must.Succeed(t, os.WriteFile(kubectlDocument, []byte(text+table), 0o600))
}
