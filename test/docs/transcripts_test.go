package docs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/allinone"
)

// exception is a group of commands that no test runs. Their names, flags and files are
// checked all the same.
type exception struct {
	match  *regexp.Regexp
	reason string
}

var exceptions = []exception{
	{regexp.MustCompile(`^coppice (graph|processor|finalizers|scanner) `), "needs a server with accounts; TestServiceCommands and TestRestoreCommands run the same commands"},
	{regexp.MustCompile(`^coppice secret add `), "follows a restore; TestNatsCommands runs the same command"},
	{regexp.MustCompile(`^coppice (backup|restore-backup) `), "needs an archive; TestBackupDrill of cmd/coppice and TestBackupCommands run the same commands"},
	{regexp.MustCompile(`^coppice bench `), "measures for minutes, or needs a deployment; TestBenchCommands runs the same commands"},
	{regexp.MustCompile(`^coppice (archive verify file:///backup/|realm restore |realm resume |up --data \./restored)`), "needs an archive; TestRestoreCommands runs the same commands"},
	{regexp.MustCompile(`^coppice replay shop.log --what-if `), "needs a log with deletions; cmd/coppice/testdata/script/whatif.txtar runs the same command"},
	{regexp.MustCompile(`^coppice (replay .*--realm |up --realm incident)`), "needs the data of a server that does not run; cmd/coppice/testdata/script/replayrealm.txtar runs the same commands"},
	{regexp.MustCompile(`^go run \./cmd/coppice demo$`), "cmd/coppice/testdata/script/demo.txtar runs it"},
	{regexp.MustCompile(`^coppice policy (veto|agree) ns/preview-7 `), "needs a notice, which the scanner gives within a minute; cmd/coppice/testdata/script/notice.txtar runs the same commands"},
	{regexp.MustCompile(`^coppice console `), "serves until it is ended; TestConsoleSignIn of cmd/coppice runs the same command"},
	{regexp.MustCompile(`^npm `), "needs Node; .ci/nightly console runs the same commands"},
	{regexp.MustCompile(`^go test `), "a test cannot run all tests"},
	{regexp.MustCompile(`^(make|\.ci/nightly) `), "runs all tests"},
	{regexp.MustCompile(`^spec/check`), "takes fifteen minutes; .ci/nightly runs it"},
	{regexp.MustCompile(`^spin `), "takes hours, and needs spin"},
}

// Every coppice command in a block of the documents works, in the order of the
// document, and prints what the document shows, apart from times, revisions, ports and
// hashes of plans. So does the request of README, which follows its commands. A document
// that starts `coppice up` has no other server; every other document has a realm with the
// objects of examples/shop.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	_, _, commands := pages(t)
	used := map[*regexp.Regexp]bool{}
	byFile := map[string][]shown{}
	for _, c := range commands {
		if c.inline || c.script || strings.HasPrefix(c.text, "nats ") && c.file != "README.md" {
			continue // TestCommandsExist, TestNatsCommands
		}
		i := slices.IndexFunc(exceptions, func(e exception) bool { return e.match.MatchString(c.text) })
		if i >= 0 {
			used[exceptions[i].match] = true
			continue
		}
		byFile[c.file] = append(byFile[c.file], c)
	}
	for _, e := range exceptions {
		if !used[e.match] {
			t.Errorf("no document shows a command that matches %s: remove this exception", e.match)
		}
	}
	if len(byFile["README.md"]) < 6 {
		t.Errorf("README.md shows the commands %v", byFile["README.md"])
	}
	for file, list := range byFile {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			play(t, list)
		})
	}
}

// play runs the commands of one document.
func play(t *testing.T, list []shown) {
	t.Helper()
	s := &shell{player: &player{ctx: testkit.Context(t), dir: t.TempDir()}}
	t.Cleanup(func() { s.end(t) })
	served := !slices.ContainsFunc(list, func(c shown) bool { return strings.HasPrefix(c.text, "coppice up ") && strings.HasSuffix(c.text, " &") })
	if served {
		s.player = start(t, "", false)
	}
	examples, err := filepath.Abs(filepath.Join(module, "examples"))
	if err == nil {
		err = os.Symlink(examples, filepath.Join(s.dir, "examples"))
	}
	must.Succeed(t, err)
	blocks, _, _ := pages(t)
	for _, b := range blocks {
		if name := named.FindStringSubmatch(b.text); name != nil && b.file == list[0].file && b.lang == "yaml" {
			s.write(t, name[1], b.text)
		}
	}
	if served {
		if s.run(t, "coppice import -f examples/shop"); s.err != nil {
			t.Fatalf("%v: %s", s.err, s.output())
		}
		s.forget()
	}
	defer func() {
		if t.Failed() {
			t.Logf("the last commands printed\n%s", s.output())
		}
	}()
	var want []string
	for _, c := range list {
		if strings.HasPrefix(c.text, "nats ") {
			shows := strings.TrimSuffix(strings.Join(c.output, "\n"), "...")
			if reply := s.request(t, c.text); !strings.HasPrefix(reply, shows) {
				t.Fatalf("%s\nis answered with\n%s\nthe document shows\n%s", c, reply, shows)
			}
			continue
		}
		if before := preparations[c.text]; before != nil {
			before(t, s)
			s.forget()
			want = nil
		}
		want = append(want, normal(c.output)...)
		s.run(t, c.text)
		refused := len(c.output) > 0 && (strings.HasPrefix(c.output[0], "coppice: ") || c.output[0] == "no")
		if refused != (s.err != nil) {
			t.Fatalf("%s: %v\n%s", c, s.err, s.output())
		}
		if c.output == nil { // a block of sh, or a command that prints nothing
			s.forget()
			want = nil
			continue
		}
		what := c.text + " to print what the document shows"
		var got []string
		testkit.WaitFor(t, s.ctx, what, func() bool {
			got = without(normal(strings.Split(strings.TrimSuffix(s.output(), "\n"), "\n")), want)
			return len(got) >= len(want) || t.Failed()
		})
		// Commands in the background print between the lines of others.
		slices.Sort(got)
		sorted := slices.Sorted(slices.Values(want))
		if !slices.Equal(got, sorted) {
			t.Fatalf("%s\nprints, in some order,\n%s\nthe document shows\n%s", c, strings.Join(got, "\n"), strings.Join(sorted, "\n"))
		}
	}
}

// named matches a block that begins with the name of its file in a comment.
var named = regexp.MustCompile(`^# (\S+\.yaml)\n`)

// progress matches what a command that waits prints about a state that has lasted.
var progress = regexp.MustCompile(`^removed \d+/\d+(; waiting: .*)?$`)

// without returns the lines without what services log on a slow machine, and without progress that
// the document does not show: a slow machine has more states that last.
func without(lines, shown []string) []string {
	return slices.DeleteFunc(lines, func(line string) bool {
		return testkit.SlowLine.MatchString(line) || progress.MatchString(line) && !slices.Contains(shown, line)
	})
}

// preparations are what the commands of a document need that does not follow from the
// commands before.
var preparations = map[string]func(*testing.T, *shell){
	// A pod that runs on a node has a grace period.
	"coppice delete pod/web-1 -n shop --grace-period=10": func(t *testing.T, s *shell) {
		t.Helper()
		s.write(t, "pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: web-1}\nspec: {nodeName: node-1}\n")
		s.run(t, "coppice apply -n shop -f pod.yaml")
	},
	// The collector marks the Pod while a person reads on.
	"coppice finalizer remove pod/web-7d4-x example.com/bucket -n shop --force --reason 'deleted by hand'": func(t *testing.T, s *shell) {
		t.Helper()
		testkit.WaitFor(t, s.ctx, "the Pod to be marked", func() bool {
			s.forget()
			s.run(t, "coppice get pod/web-7d4-x -n shop")
			return strings.Contains(s.output(), "Terminating")
		})
	},
	"coppice apply -f web.yaml": func(t *testing.T, s *shell) {
		t.Helper()
		s.write(t, "web.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web2\n  namespace: shop\n"+
			"  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web}]\n")
	},
	"coppice apply -f bucket.yaml": func(t *testing.T, s *shell) {
		t.Helper()
		blocks, _, _ := pages(t)
		i := slices.IndexFunc(blocks, func(b block) bool { return b.lang == "yaml" && strings.Contains(b.text, "name: my-bucket\n") })
		if i < 0 {
			t.Fatal("no document shows bucket.yaml")
		}
		s.write(t, "bucket.yaml", blocks[i].text)
	},
	"coppice apply -f settings.yaml": func(t *testing.T, s *shell) {
		t.Helper()
		blocks, _, _ := pages(t)
		i := slices.IndexFunc(blocks, func(b block) bool { return b.lang == "yaml" && strings.Contains(b.text, "\nkind: Realm\n") })
		if i < 0 {
			t.Fatal("no document shows the settings of a realm")
		}
		s.write(t, "settings.yaml", blocks[i].text)
	},
}

var variable = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`^ +\d+  `), "REVISION  "},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`), "TIME"},
	{regexp.MustCompile(`(\d{4}-\d\d-\d\d )?\b\d\d:\d\d(:\d\d)?\b`), "TIME"},
	{regexp.MustCompile(`\brevision \d+`), "REVISION"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:PORT"},
	{regexp.MustCompile(`#token=\S+`), "#token=TOKEN"},
	{regexp.MustCompile(`\b\d+\.\d+s\b`), "SECONDS"},
	{regexp.MustCompile(`[0-9a-f]{16}@\d+`), "PLAN"},
}

// normal returns lines without what differs from run to run.
func normal(lines []string) (out []string) {
	for _, line := range lines {
		for _, v := range variable {
			line = v.pattern.ReplaceAllString(line, v.by)
		}
		if line != "" {
			out = append(out, line)
		}
	}
	return out
}

// shell runs commands in one directory. Those that end with " &" run until its end.
type shell struct {
	*player
	mu         sync.Mutex
	out        strings.Builder
	background []*exec.Cmd
	err        error // of the last command that ran in the foreground
}

func (s *shell) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(data)
}

func (s *shell) output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

func (s *shell) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.url == "" {
		s.url = serverURL.FindString(s.out.String())
	}
	s.out.Reset()
}

func (s *shell) write(t *testing.T, name, text string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600))
}

var serverURL = regexp.MustCompile(`nats://127\.0\.0\.1:\d+`)

// run runs a command. The program of an example is built already, and `coppice up`
// gets a port that is free.
func (s *shell) run(t *testing.T, text string) {
	t.Helper()
	bin := built(t)
	text, waits := strings.CutSuffix(text, " &")
	text = strings.Replace(text, "go run ./examples/", "", 1)
	if text == "go run ." {
		text = "finalizer" // the program that docs/finalizers.md shows prints the same
	}
	if text == "coppice up" || strings.HasPrefix(text, "coppice up --auth ") {
		s.auth = s.auth || text != "coppice up"
		text += " --port -1"
	} else if s.url == "" {
		s.url = serverURL.FindString(s.output())
	}
	c := exec.Command("sh", "-c", "exec "+text)
	c.Dir = s.dir
	c.Env = []string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + s.dir, "NATS_URL=" + s.url, "NATS_TIMEOUT=" + testkit.Timeout.String(), "COPPICE_ACTOR=ana", "COPPICE_HTTP=127.0.0.1:0", "COPPICE_CONSOLE=127.0.0.1:0"}
	if s.auth { // the context names the server and the actor
		c.Env = slices.DeleteFunc(c.Env, func(v string) bool {
			return strings.HasPrefix(v, "NATS_URL=") || strings.HasPrefix(v, "COPPICE_ACTOR=")
		})
		c.Env = append(c.Env, "XDG_CONFIG_HOME="+filepath.Join(s.dir, "coppice-data", allinone.UsersDir))
	}
	c.Stdout, c.Stderr = s, s
	if waits {
		must.Succeed(t, c.Start())
		s.background = append(s.background, c)
		return
	}
	s.err = c.Run()
}

// request sends the request that a `nats request` sends, without this command, which the gate does not have, and
// returns the reply.
func (s *shell) request(t *testing.T, text string) string {
	t.Helper()
	args := words.FindAllString(text, -1)
	m := nats.NewMsg(args[len(args)-2])
	m.Data = []byte(strings.Trim(args[len(args)-1], "'"))
	for i, a := range args {
		if name, value, ok := strings.Cut(args[min(i+1, len(args)-1)], ":"); ok && a == "-H" {
			m.Header.Set(name, value)
		}
	}
	nc, err := nats.Connect(s.url)
	must.Succeed(t, err)
	defer nc.Close()
	reply, err := nc.RequestMsgWithContext(s.ctx, m)
	must.Succeed(t, err)
	return string(reply.Data)
}

// end interrupts what runs in the background, the last first.
func (s *shell) end(t *testing.T) {
	t.Helper()
	for _, c := range slices.Backward(s.background) {
		_ = c.Process.Signal(syscall.SIGINT) // it may have ended
		if err := c.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", c, err, s.output())
		}
	}
}

// programsDir is the directory of the programs, which the first test that runs one builds.
var (
	programsDir string
	build       = sync.OnceValue(func() error {
		c := exec.Command("go", "build", "-buildvcs=false", "-o", programsDir+string(filepath.Separator), "./cmd/coppice", "./examples/finalizer")
		c.Dir = module
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
)

// built returns the directory of the programs: coppice, and the examples that
// documents run.
func built(t *testing.T) string {
	t.Helper()
	must.Succeed(t, build())
	return programsDir
}
