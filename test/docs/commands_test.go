package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// module is the module's root.
const module = "../.."

// command is a nats command that a document shows.
type command struct {
	file string
	line int
	text string // on one line
	// admin: the paragraph says that the command needs the user admin; accounts: only
	// where the server has accounts.
	admin, accounts bool
	output          string // of a transcript; with "..." at its end, the beginning of the output
}

func (c command) String() string { return fmt.Sprintf("%s:%d: %s", c.file, c.line, c.text) }

// documents returns README and the documents.
func documents(t *testing.T) []string {
	t.Helper()
	files := []string{"README.md", "ARCHITECTURE.md"}
	err := filepath.WalkDir(filepath.Join(module, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == ".md" {
			path, err = filepath.Rel(module, path)
			files = append(files, path)
		}
		return err
	})
	must.Succeed(t, err)
	return files
}

// commandsOf returns the nats commands of a document, in order: each line of a code
// block that begins with one, and each that stands in the text between backquotes. names
// are commands without their arguments, as a sentence names them.
func commandsOf(t *testing.T, file string) (commands []command, names []string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(module, file))
	must.Succeed(t, err)
	return parseCommands(file, string(data))
}

var inline = regexp.MustCompile("`(nats [a-z][^`]*)`")

// name is a command without arguments: nats, and up to two words.
var name = regexp.MustCompile(`^nats [a-z]+( [a-z]+)?$`)

func parseCommands(file, text string) (commands []command, names []string) {
	add := func(line int, text, paragraph string) {
		text = strings.Join(strings.Fields(text), " ")
		c := command{file: file, line: line, text: text, admin: strings.Contains(paragraph, "user `admin`")}
		c.accounts = strings.Contains(paragraph, "the NATS server has accounts")
		if name.MatchString(text) && !listing(text) {
			names = append(names, text)
			return
		}
		commands = append(commands, c)
	}
	lines := strings.Split(text, "\n")
	var paragraph []string
	intro := "" // the paragraph before a block, if it ends with a colon
	end := func(at int) {
		if len(paragraph) == 0 {
			return
		}
		all := strings.Join(paragraph, "\n")
		flat := strings.Join(strings.Fields(all), " ")
		if intro = ""; strings.HasSuffix(flat, ":") {
			intro = flat
		}
		for _, m := range inline.FindAllStringSubmatchIndex(all, -1) {
			line := at - len(paragraph) + strings.Count(all[:m[0]], "\n") + 1
			add(line, all[m[2]:m[3]], flat)
		}
		paragraph = nil
	}
	fenced := false
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			end(i)
			fenced = !fenced
		case fenced:
			first := i
			whole := strings.TrimPrefix(strings.TrimSpace(line), "$ ")
			for strings.HasSuffix(whole, `\`) && i+1 < len(lines) {
				i++
				whole = strings.TrimSuffix(whole, `\`) + " " + strings.TrimSpace(lines[i])
			}
			if !strings.HasPrefix(whole, "nats ") {
				continue
			}
			before := len(commands)
			add(first+1, whole, intro)
			prompt := strings.HasPrefix(strings.TrimSpace(line), "$ ")
			if prompt && len(commands) > before && i+1 < len(lines) && !strings.HasPrefix(lines[i+1], "$ ") && !strings.HasPrefix(lines[i+1], "```") {
				i++
				commands[before].output = lines[i]
			}
		case strings.TrimSpace(line) == "":
			end(i)
		default:
			paragraph = append(paragraph, line)
		}
	}
	end(len(lines))
	return commands, names
}

// listing reports whether a command is whole without arguments.
func listing(text string) bool { return strings.HasSuffix(text, " ls") }

// Commands are found where documents have them, on one line or several.
func TestParseCommands(t *testing.T) {
	t.Parallel()
	commands, names := parseCommands("x.md", "Back up with `nats stream backup a\nDIR`, as the user\n`admin`. See `nats micro`.\n\n"+
		"```sh\n$ nats req -H A:b \\\n    x '{\"a\": 1}'\n{...\nother\nnats micro ls\n```\n`nats-server --x`, `nats micro info y`\n\nAs the user `admin`:\n\n```sh\nnats stream restore z\n```\n")
	var got []string
	for _, c := range commands {
		got = append(got, fmt.Sprint(c.line, " ", c.text, " ", c.admin, c.output))
	}
	want := []string{"1 nats stream backup a DIR true", `6 nats req -H A:b x '{"a": 1}' false{...`, "10 nats micro ls false", "12 nats micro info y false", "17 nats stream restore z true"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") || len(names) != 1 || names[0] != "nats micro" {
		t.Errorf("got %q and %q, want %q", got, names, want)
	}
}
