package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/worker"
)

// Every command of documents, of comments in Go files, of the Makefile, of .ci/run and of .ci/nightly
// names a program, a subcommand, flags, packages, tests, targets and files that exist.
// TestTranscripts also runs those that stand in blocks.
func TestCommandsExist(t *testing.T) {
	t.Parallel()
	_, _, list := pages(t)
	blocks, inComments := comments(t)
	if len(blocks) < 20 || len(inComments) < 20 || len(list) < 80 {
		t.Fatalf("found %d code blocks and %d commands in comments, %d commands in documents", len(blocks), len(inComments), len(list))
	}
	list = append(list, inComments...)
	for _, file := range []string{"Makefile", ".ci/run", ".ci/nightly"} {
		list = append(list, goCommands(t, file)...)
	}
	coppice, checked := startCoppice(t), map[string]error{}
	for _, c := range list {
		dir := c.dir
		if c.comment && strings.HasPrefix(c.text, "go ") {
			dir = path.Dir(c.file) // where "go test ." is meant
		}
		key := dir + " " + c.text
		err, known := checked[key]
		if !known {
			err = invocation{dir: dir, coppice: coppice}.check(c.text)
			checked[key] = err
		}
		if err != nil {
			t.Errorf("%s: %v", c, err)
		}
	}
}

var (
	goCommand = regexp.MustCompile(`\bgo (?:run|test|build|tool|install) [^|;&<>)\n]*`)
	prose     = regexp.MustCompile(`^#|^[a-z0-9]+ +\d+ +\d+ `) // comments, and the list of steps of .ci/nightly
	directory = regexp.MustCompile(`\bcd ([a-z/]+) && `)
)

// goCommands returns the go commands of a script, apart from those with variables.
func goCommands(t *testing.T, file string) (list []shown) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(module, file))
	must.Succeed(t, err)
	for i, line := range strings.Split(string(data), "\n") {
		if prose.MatchString(line) {
			continue
		}
		var dir string
		if m := directory.FindStringSubmatch(line); m != nil {
			dir = m[1]
		}
		for _, text := range goCommand.FindAllString(trailing.ReplaceAllString(line, ""), -1) {
			if !strings.HasPrefix(line, "step ") && !strings.ContainsAny(text, "$`\"") {
				list = append(list, shown{file: file, line: i + 1, text: text, dir: dir})
			}
		}
	}
	return list
}

// invocation checks commands without running them.
type invocation struct {
	dir     string // of "." in the arguments of go, below the module's root
	coppice *worker.Worker
}

// program is the test program of cmd/coppice, which a worker of coppice is.
var program = sync.OnceValues(func() (string, error) {
	name := filepath.Join(programsDir, "worker", "coppice")
	build := exec.Command("go", "test", "-c", "-o", name, "./cmd/coppice")
	build.Dir = module
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return name, nil
})

// startCoppice starts a worker of coppice for a test.
func startCoppice(t *testing.T) *worker.Worker {
	t.Helper()
	name, err := program()
	must.Succeed(t, err)
	w, err := worker.Start(name, os.Environ())
	must.Succeed(t, err)
	t.Cleanup(func() {
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	})
	return w
}

var (
	words       = regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`)
	assignment  = regexp.MustCompile(`^[A-Z_]+=`)
	alternative = regexp.MustCompile(`^[a-z]+(\|[a-z]+)+$`)
)

func (in invocation) check(text string) error {
	for part := range strings.SplitSeq(text, " && ") {
		args := words.FindAllString(strings.TrimSuffix(part, " &"), -1)
		for i, a := range args {
			if alternative.MatchString(a) { // cascade|create
				for one := range strings.SplitSeq(a, "|") {
					if err := in.program(slices.Concat(args[:i], []string{one}, args[i+1:])); err != nil {
						return err
					}
				}
				return nil
			}
			args[i] = strings.Trim(a, `'"`)
		}
		for len(args) > 0 && assignment.MatchString(args[0]) {
			args = args[1:]
		}
		if err := in.program(args); err != nil {
			return err
		}
	}
	return nil
}

// npm checks arguments of npm, which runs in the directory console: a script that it names must be there.
func npm(args []string) error {
	if len(args) == 1 && (args[0] == "ci" || args[0] == "install") {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(module, "console", "package.json"))
	if err != nil {
		return err
	}
	var of struct {
		Scripts map[string]string `json:"scripts"`
	}
	if err := json.Unmarshal(data, &of); err != nil {
		return err
	}
	name := strings.TrimPrefix(strings.Join(args, " "), "run ")
	if of.Scripts[name] == "" {
		return fmt.Errorf("console/package.json has no script %q", name)
	}
	return nil
}

// elsewhere are programs that are not Coppice's.
var elsewhere = []string{"nats", "spin", "gcc", "./pan"}

func (in invocation) program(args []string) error {
	switch {
	case len(args) == 0:
		return fmt.Errorf("no program")
	case args[0] == "coppice":
		return in.subcommand(args[1:])
	case args[0] == "go":
		return in.goTool(args[1:])
	case args[0] == "make":
		return in.target(args[1:])
	case args[0] == "npm":
		return npm(args[1:])
	case args[0] == ".ci/nightly":
		return in.steps(args[1:])
	case args[0] == "chrt" && len(args) > 3:
		return in.program(args[3:])
	case slices.Contains(elsewhere, args[0]):
		return nil
	}
	info, err := os.Stat(filepath.Join(module, args[0]))
	if err != nil || info.IsDir() || info.Mode()&0o100 == 0 {
		return fmt.Errorf("%s is no program of this repository", args[0])
	}
	if args[0] == "spec/check" && len(args) == 4 { // show MUTANT PROPERTY
		data, err := os.ReadFile(filepath.Join(module, args[0]))
		if err != nil || !regexp.MustCompile(`\b`+args[2]+` +[^\n]*\b`+args[3]+`\b`).Match(data) {
			return fmt.Errorf("spec/check has no mutant %s of %s (%w)", args[2], args[3], err)
		}
	}
	return nil
}

var usageLine = regexp.MustCompile(`(?m)^Usage:\n((?:  coppice.*\n)+)`)

// subcommand has coppice parse arguments, and print its help.
func (in invocation) subcommand(args []string) error {
	if slices.Contains(args, "COMMAND") {
		return nil // stands for any
	}
	if i := slices.Index(args, ">"); i >= 0 { // the shell's
		args = args[:i]
	}
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "..." || a == "…" })
	o, err := in.coppice.Do(worker.Command{Dir: ".", Env: os.Environ(), Args: append([]string{"--help=true"}, args...)})
	if err != nil {
		return err
	}
	out := slices.Concat(o.Stdout, o.Stderr)
	if o.Code != 0 && !strings.Contains(string(out), "flag needs an argument") {
		return fmt.Errorf("exit code %d: %s", o.Code, out)
	}
	usage := usageLine.FindStringSubmatch(string(out))
	if usage == nil || !strings.Contains(usage[1], "[command]") {
		return nil // a sentence may name a flag without its value
	}
	// The command has subcommands: its arguments must not name another one.
	known := len(strings.Fields(strings.TrimSpace(strings.Split(usage[1], "[")[0]))) - 1
	for i, a := range args {
		if i >= known && strings.HasPrefix(a, "-") {
			break // what follows may be its value
		}
		if i >= known {
			return fmt.Errorf("%s has no subcommand %s", strings.Join(append([]string{"coppice"}, args[:i]...), " "), a)
		}
	}
	return nil
}

// target checks the arguments of make.
func (in invocation) target(args []string) error {
	data, err := os.ReadFile(filepath.Join(module, "Makefile"))
	if err != nil {
		return err
	}
	for _, a := range args {
		pattern := `(?m)^(?:[a-z]+ )*` + regexp.QuoteMeta(a) + `(?: [a-z]+)*:`
		if name, _, ok := strings.Cut(a, "="); ok {
			pattern = `(?m)^` + name + ` \?=`
		}
		if !regexp.MustCompile(pattern).Match(data) {
			return fmt.Errorf("the Makefile has no %s", a)
		}
	}
	return nil
}

// steps checks the arguments of .ci/nightly.
func (in invocation) steps(args []string) error {
	data, err := os.ReadFile(filepath.Join(module, ".ci", "nightly"))
	if err != nil {
		return err
	}
	for _, a := range args {
		if a == "--list" || strings.ToUpper(a) == a { // STEP... stands for any
			continue
		}
		listed, function := `(?m)^`+regexp.QuoteMeta(a)+` +\d+ +\d+ `, `(?m)^step_`+regexp.QuoteMeta(a)+`\(\) \{`
		if !regexp.MustCompile(listed).Match(data) || !regexp.MustCompile(function).Match(data) {
			return fmt.Errorf(".ci/nightly has no step %s", a)
		}
	}
	return nil
}

// Flags of go test, with and without a value.
var (
	valueFlags = []string{"run", "bench", "fuzz", "skip", "timeout", "count", "fuzztime", "parallel", "p", "tags", "o", "mod", "list"}
	boolFlags  = []string{"v", "race", "short", "json", "benchmem", "failfast", "buildvcs"}
)

// goTool checks the arguments of go.
func (in invocation) goTool(args []string) error {
	verb := args[0]
	args = args[1:]
	var packages []string
	own, patterns := map[string]bool{}, []string{}
	for i := 0; i < len(args); i++ {
		a := args[i]
		if !strings.HasPrefix(a, "-") {
			packages = append(packages, a)
			continue
		}
		name, value, given := strings.Cut(strings.TrimLeft(a, "-"), "=")
		switch {
		case verb == "run" && len(packages) > 0:
			own[name] = true
		case name == "C" && !given && i+1 < len(args): // the directory in which it runs
			i++
			if in.dir = args[i]; !exists(in.dir) {
				return fmt.Errorf("there is no directory %s", in.dir)
			}
		case name == "modfile":
			if _, err := os.Stat(filepath.Join(module, value)); err != nil {
				return err
			}
		case slices.Contains(valueFlags, name):
			if !given && i+1 < len(args) {
				i++
				value = args[i]
			}
			if name == "run" || name == "bench" || name == "fuzz" {
				patterns = append(patterns, value)
			}
		case !slices.Contains(boolFlags, name):
			own[name] = true
		}
	}
	switch verb {
	case "tool", "mod", "vet", "generate":
		return nil
	case "run":
		if packages = packages[:min(len(packages), 1)]; in.dir == "" && slices.Equal(packages, []string{"."}) {
			return nil // the reader's own program
		}
	}
	if len(packages) == 0 {
		return nil // as a sentence names it
	}
	return in.sources(packages, patterns, own)
}

// dependencyFlags are the flags of tests that packages declare which they import.
var dependencyFlags = map[string]string{"rewrite": "github.com/cockroachdb/datadriven", "rapid.checks": "pgregory.net/rapid"}

// sources checks that packages exist, have the tests that patterns select, and declare
// flags of their own.
func (in invocation) sources(packages, patterns []string, flags map[string]bool) error {
	var text strings.Builder
	for _, p := range packages {
		if strings.Contains(p, ".com/") || strings.Contains(p, ".org/") {
			continue // of another module
		}
		dir, below := strings.CutSuffix(p, "...")
		root := module
		if p == "." || !exists(dir) {
			root = filepath.Join(module, in.dir)
		}
		found := false
		err := filepath.WalkDir(filepath.Join(root, dir), func(name string, d os.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && name != filepath.Join(root, dir) && (!below || strings.HasPrefix(d.Name(), ".")):
				return filepath.SkipDir
			case filepath.Ext(name) != ".go":
				return nil
			}
			found = true
			data, err := os.ReadFile(name)
			text.Write(data)
			return err
		})
		if err != nil || !found {
			return fmt.Errorf("%s has no Go files (%w)", p, err)
		}
	}
	for _, pattern := range patterns {
		first, _, _ := strings.Cut(strings.TrimSuffix(pattern, "$"), "/")
		first = strings.TrimPrefix(first, "^")
		if first == "" || first == "." {
			continue // none, or all
		}
		if !regexp.MustCompile(`\nfunc (Test|Benchmark|Fuzz|Example)?\w*(` + first + `)\w*\(`).MatchString(text.String()) {
			return fmt.Errorf("no test matches %s", pattern)
		}
	}
	for name := range flags {
		of := dependencyFlags[name]
		if of != "" && strings.Contains(text.String(), `"`+of+`"`) {
			continue
		}
		if !regexp.MustCompile(`(?:[fF]lags?\.\w+|SeedFlag)\([^"\n]*"` + regexp.QuoteMeta(name) + `"`).MatchString(text.String()) {
			return fmt.Errorf("no flag %s is declared in %s", name, strings.Join(packages, " "))
		}
	}
	return nil
}

func exists(name string) bool {
	_, err := os.Stat(filepath.Join(module, name))
	return err == nil
}

// A command that names something that does not exist is found.
func TestInvocations(t *testing.T) {
	t.Parallel()
	in := invocation{dir: "test/docs", coppice: startCoppice(t)}
	for _, good := range []string{
		"coppice get pods -o json && coppice up --auth", "coppice bench create|cascade --processes", "coppice delete -l",
		"make model OPS=3", "go run ./test/words -count", "go test . -run '^TestMain$' -count=1", "NATS_URL=x coppice parked retry", "go test ./...", ".ci/run",
		".ci/nightly race fuzz", ".ci/nightly --list", "npm ci", "npm test", "npm run build",
		"spec/check show NO_VERIFY S1", "chrt --batch 0 coppice up", "go tool -modfile=tools/go.mod buf lint",
	} {
		if err := in.check(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"coppice got pods", "coppice get --frobnicate", "coppice parked replay", "coppice bench create|walk", "coppice up && coppice down",
		"make modell", "make model OPTS=3", "go run ./test/wrods", "go run ./test/words -everything", "go test ./test/words -run TestNothingLikeThat",
		"go test ./... -nosuchflag=1", "npm run biuld", "npm update", ".ci/nightly races", ".ci/nightly minutes", "go tool -modfile=tools/none.mod x", "test/bench/walk", "spec/check show NO_SUCH S1",
	} {
		if in.check(bad) == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}
