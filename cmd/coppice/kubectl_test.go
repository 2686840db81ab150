package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/manifestfile"
	"github.com/coppice-gc/coppice/internal/oracle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/worker"
	"github.com/coppice-gc/coppice/services/allinone"
)

// recordedCommands has the recorded command lines of kubectl, and their objects.
const recordedCommands = "../../internal/oracle/testdata/commands"

// The recorded command lines of kubectl do the same with coppice: they succeed or not, change the same objects, and print
// the same objects, or the same text where -o asks for a format. testdata/kubectl.txt has what Coppice does where
// it differs, by reason; docs/commands.md has the reasons with the command lines.
func TestKubectl(t *testing.T) {
	t.Parallel()
	p := newPlayer(t)
	differing := map[string]string{} // what Coppice does, by command line
	same := map[string]bool{}
	datadriven.Walk(t, recordedCommands, func(t *testing.T, path string) {
		t.Helper()
		p.dir = t.TempDir()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			switch d.Cmd {
			case "file":
				p.write(t, d.CmdArgs[0].Key, d.Input)
			case "kubectl":
				lines, err := oracle.ParseCommandLines(d.Expected)
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				for _, line := range lines {
					if is := p.play(t, line.Line); compared(is) == compared(line) {
						same[line.Line] = true
					} else {
						differing[line.Line] = recorded(is)
					}
				}
			}
			return d.Expected
		})
	})
	table := readFile(t, "../../docs/commands.md")
	if count := fmt.Sprintf("\n%d command lines of kubectl ", len(same)+len(differing)); !bytes.Contains(table, []byte(count)) {
		t.Errorf("docs/commands.md does not have %q", count)
	}
	var problems []string // datadriven ends a file at its first error
	datadriven.RunTest(t, "testdata/kubectl.txt", func(_ *testing.T, d *datadriven.TestData) string {
		var b strings.Builder
		var quoted []string
		reason, lines, _ := strings.Cut(d.Input, "\n")
		for line := range strings.Lines(lines) {
			line = strings.TrimSuffix(line, "\n")
			text, differs := differing[line]
			delete(differing, line)
			switch {
			case same[line]:
				problems = append(problems, "testdata/kubectl.txt: it is the same for kubectl: "+line)
			case !differs:
				problems = append(problems, "testdata/kubectl.txt: no recording has it, or another reason has it: "+line)
			}
			quoted = append(quoted, "`"+line+"`")
			b.WriteString(text)
		}
		if row := fmt.Sprintf("| %s | %s |", reason, strings.Join(quoted, ", ")); !bytes.Contains(table, []byte("\n"+row+"\n")) {
			problems = append(problems, "docs/commands.md has no row\n"+row)
		}
		return b.String()
	})
	for _, line := range slices.Sorted(maps.Keys(differing)) {
		problems = append(problems, "kubectl does something else:\n"+differing[line])
	}
	for _, problem := range problems {
		t.Error(problem)
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(name)
	must.Succeed(t, err)
	return raw
}

// player runs command lines in a realm, each with the objects of the recordings in two namespaces.
type player struct {
	client  *client.Client
	worker  *worker.Worker
	env     []string
	dir     string
	objects []*client.Object
	was     map[string]uint64 // the objects, with their versions, as lines of effects name them
}

// startStack starts a server and services, in a directory and on a port of their own.
func startStack(t *testing.T, config allinone.Config) *allinone.Stack {
	t.Helper()
	ctx := testkit.Context(t)
	config.Dir, config.Port = t.TempDir(), -1
	s, err := allinone.Start(ctx, config)
	must.Succeed(t, err)
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	must.Succeed(t, s.Await(ctx))
	return s
}

// startWorker starts a process that runs commands.
func startWorker(t *testing.T, env []string) *worker.Worker {
	t.Helper()
	w, err := worker.Start(program(t), env)
	must.Succeed(t, err)
	t.Cleanup(func() {
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func newPlayer(t *testing.T) *player {
	t.Helper()
	ctx, dir := testkit.Context(t), t.TempDir()
	running := startStack(t, allinone.Config{})
	nc, err := nats.Connect(running.Server().URL(), nats.Timeout(testkit.Timeout))
	must.Succeed(t, err)
	t.Cleanup(nc.Close)
	p := &player{client: client.New(nc), env: []string{
		"NATS_URL=" + running.Server().URL(), "COPPICE_ACTOR=ana", "HOME=" + dir, "PATH=" + os.Getenv("PATH"), "NATS_TIMEOUT=" + testkit.Timeout.String(), "TMPDIR=" + dir,
	}}
	p.worker = startWorker(t, p.env)
	entries, err := manifestfile.Read("objects", readFile(t, recordedCommands+"-objects.yaml"))
	must.Succeed(t, err)
	for _, e := range entries {
		if e.Err != nil {
			t.Fatal(e.Err)
		}
		p.objects = append(p.objects, e.Object)
	}
	kind := client.Kind{Group: "example.com", Kind: "Widget", Plural: "widgets", Scope: "Namespaced", Versions: []client.KindVersion{{Name: "v1"}}}
	if _, err := p.client.Resource(client.KindsResource, "").Create(ctx, client.NewKindObject(kind)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"default", "there"} {
		o := &client.Object{ApiVersion: "v1", Kind: "Namespace", Metadata: &client.ObjectMeta{Name: name}}
		if _, err := p.client.Resource(client.Resource{Plural: "namespaces"}, "").Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// resourcesOfObjects are the resources of the objects of the recordings, by kind.
var resourcesOfObjects = map[string]client.Resource{
	"ConfigMap": {Plural: "configmaps"}, "Pod": {Plural: "pods"}, "Deployment": {Group: "apps", Plural: "deployments"}, "Widget": {Group: "example.com", Plural: "widgets"},
}

// here and there are the namespaces of command lines, as the recordings name them.
var here, there = "default", "there"

// placed replaces the variables of command lines and files.
var placed = strings.NewReplacer("$here", here, "$there", there)

func (p *player) write(t *testing.T, name, text string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(filepath.Join(p.dir, name), []byte(placed.Replace(text)), 0o600))
}

// fill deletes all objects, and creates those of the recordings.
func (p *player) fill(t *testing.T) {
	t.Helper()
	ctx := testkit.Context(t)
	for _, resource := range resourcesOfObjects {
		for _, namespace := range []string{here, there} {
			if _, err := p.client.Resource(resource, namespace).DeleteEverything(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	if left := p.stored(t); len(left) > 0 {
		t.Fatalf("%v cannot be deleted", left)
	}
	for _, o := range p.objects {
		for _, namespace := range []string{here, there} {
			if _, err := p.client.Resource(resourcesOfObjects[o.GetKind()], namespace).Create(ctx, o); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.was = p.stored(t)
}

// stored returns the versions of all objects, when none is terminating any more: kubectl waits for it.
func (p *player) stored(t *testing.T) map[string]uint64 {
	t.Helper()
	ctx := testkit.Context(t)
	for {
		terminating, all := false, map[string]uint64{}
		for _, resource := range resourcesOfObjects {
			for name, namespace := range map[string]string{"here": here, "there": there} {
				for o, err := range p.client.Resource(resource, namespace).List(ctx) {
					must.Succeed(t, err)
					m := o.GetMetadata()
					terminating = terminating || m.GetDeletionTimestamp() != nil
					all[name+"/"+resource.Plural+"/"+m.GetName()] = m.GetResourceVersion()
				}
			}
		}
		if !terminating {
			return all
		}
	}
}

// play runs a command line.
func (p *player) play(t *testing.T, line string) oracle.CommandLine {
	t.Helper()
	if p.was == nil {
		p.fill(t)
	}
	args, err := oracle.Arguments(line)
	must.Succeed(t, err)
	for i := range args {
		args[i] = placed.Replace(args[i])
	}
	o, err := p.worker.Do(worker.Command{Dir: p.dir, Env: p.env, Args: args})
	must.Succeed(t, err)
	c := oracle.CommandLine{Line: line, Code: o.Code, Out: outputLines(o.Stdout), Err: outputLines(o.Stderr)}
	c.Effects = oracle.Effects(p.was, p.stored(t))
	if len(c.Effects) > 0 {
		p.was = nil
	}
	return c
}

func outputLines(output []byte) (list []string) {
	for line := range strings.Lines(string(output)) {
		if line = oracle.Columns(line); line != "" {
			list = append(list, line)
		}
	}
	return list
}

// recorded has what is known of a command line, as recordedCommands has it.
func recorded(c oracle.CommandLine) string {
	var b strings.Builder
	fmt.Fprintf(&b, "$ coppice %s\nexit %d\n", c.Line, c.Code)
	for _, line := range c.Out {
		fmt.Fprintf(&b, "out: %s\n", line)
	}
	for _, line := range c.Err {
		fmt.Fprintf(&b, "err: %s\n", line)
	}
	for _, line := range c.Effects {
		fmt.Fprintln(&b, line)
	}
	return b.String()
}

// compared is what must be the same for kubectl and Coppice. Their messages and tables have different words and columns.
func compared(c oracle.CommandLine) string {
	var b strings.Builder
	fmt.Fprintf(&b, "succeeds: %t\n%s\n", c.Code == 0, strings.Join(c.Effects, "\n"))
	args, err := oracle.Arguments(c.Line)
	if err != nil || len(args) == 0 || args[0] != "get" {
		return b.String()
	}
	output := format.FindStringSubmatch(c.Line)
	for _, line := range c.Out {
		switch first, _, _ := strings.Cut(line, "  "); {
		case output != nil && output[1] != "name" && output[1] != "wide" && output[1] != "":
			fmt.Fprintln(&b, line)
		case first != "NAME" && first != "NAMESPACE":
			fmt.Fprintln(&b, first[strings.LastIndexByte(first, '/')+1:])
		}
	}
	return b.String()
}

// format is the flag -o of a command line.
var format = regexp.MustCompile(`(?: -o ?=?| --output[= ])"?([a-z-]*)`)
