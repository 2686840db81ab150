package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/manual"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

var (
	requests = regexp.MustCompile(`(?m)^\.(TH|nh|ad l|SH|PP|TP|RS 2|RE|nf|fi)\b`)
	escapes  = strings.NewReplacer(`\fB`, "", `\fI`, "", `\fR`, "", `\e`, `\`, `\-`, "-", `\(aq`, "'", `\(ga`, "`", `\(ha`, "^", `\(ti`, "~", `\&`, "")
)

// plain returns the text of a manual page, and fails the test if the page has a request or an escape sequence that it must not have.
func plain(t *testing.T, name, page string) string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			if !requests.MatchString(line) {
				t.Errorf("%s: %q is not a request of these pages", name, line)
			}
			continue
		}
		if strings.Contains(strings.NewReplacer(`\fB`, "", `\fI`, "", `\fR`, "", `\e`, "", `\-`, "", `\(aq`, "", `\(ga`, "", `\(ha`, "", `\(ti`, "", `\&`, "").Replace(line), `\`) {
			t.Errorf("%s: %q has an unknown escape sequence", name, line)
		}
		lines = append(lines, strings.TrimSpace(escapes.Replace(line)))
	}
	return strings.Join(lines, "\n")
}

// Each command has a page with all of its flags and its help, and a second run writes the same bytes.
func TestManualPages(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1795617205")
	dir, again := t.TempDir(), filepath.Join(t.TempDir(), "new")
	for _, d := range []string{dir, again} {
		var out, errs bytes.Buffer
		if code := Main([]string{"man", d}, nil, &out, &errs); code != 0 {
			t.Fatalf("coppice man ended with exit code %d: %s", code, errs.String())
		}
	}
	pages := manual.Pages(newRoot(nil, nil, nil))
	files, err := os.ReadDir(dir)
	must.Succeed(t, err)
	// The pages of help and of completion are about commands that exist in a run only.
	if len(files) < len(pages)+5 || len(pages) < 60 {
		t.Errorf("%d pages for %d commands", len(files), len(pages))
	}
	for _, c := range pages {
		name := manual.Name(c) + ".1"
		page, err := os.ReadFile(filepath.Join(dir, name))
		must.Succeed(t, err)
		second, err := os.ReadFile(filepath.Join(again, name))
		must.Succeed(t, err)
		if !bytes.Equal(page, second) {
			t.Errorf("%s: a second run writes other bytes", name)
		}
		if want := `.TH "` + strings.ToUpper(manual.Name(c)) + `" 1 "2026-11-25" "coppice ` + version() + `" "Coppice"`; !strings.HasPrefix(string(page), want) {
			t.Errorf("%s begins with %.80q, want %q", name, page, want)
		}
		text := plain(t, name, string(page))
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Deprecated != "" {
				return
			}
			value, usage := pflag.UnquoteUsage(f)
			line := "--" + f.Name
			if value != "" {
				line += "=" + value
			}
			if !strings.Contains(text, line) || !strings.Contains(text, usage) {
				t.Errorf("%s does not have %s, %q", name, line, usage)
			}
		})
		for _, part := range []string{c.UseLine(), c.Short, c.Long, c.Example} {
			for line := range strings.Lines(part) {
				if !strings.Contains(text, strings.TrimSpace(line)) {
					t.Errorf("%s does not have %q", name, line)
				}
			}
		}
	}
}

// What 'coppice completion' prints completes the command in bash.
func TestCompletionOfBash(t *testing.T) {
	t.Parallel()
	for shell, says := range map[string]string{"bash": "complete -o default -F __start_coppice coppice", "zsh": "#compdef coppice", "fish": "complete -c coppice"} {
		var out, errs bytes.Buffer
		if code := Main([]string{"completion", shell}, nil, &out, &errs); code != 0 {
			t.Fatalf("coppice completion %s ended with exit code %d: %s", shell, code, errs.String())
		}
		if !strings.Contains(out.String(), says) {
			t.Errorf("the completion of %s does not have %q", shell, says)
		}
		if shell != "bash" {
			continue
		}
		file := filepath.Join(t.TempDir(), "coppice")
		must.Succeed(t, os.WriteFile(file, out.Bytes(), 0o600))
		said, err := exec.Command("bash", "--norc", "-c", `source "$1" && complete -p coppice`, "bash", file).CombinedOutput()
		if err != nil || !strings.Contains(string(said), "-F __start_coppice coppice") {
			t.Errorf("bash: %v: %s", err, said)
		}
	}
}
