package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/worker"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
)

// askingCommands are the commands that take types, names, namespaces, selectors, realms or files, with calls
// of each. In a call, words in upper case stand for valid values; TestWrongValues replaces each by wrong ones.
var askingCommands = map[string][]string{
	"get":              {"TYPE NAME -n NAMESPACE", "TYPE/NAME", "TYPE,pods", "TYPE", "TYPE -l SELECTOR", "TYPE -A -l SELECTOR", "TYPE --field-selector FIELDS", "-f FILE", "TYPE NAME -o yaml"},
	"describe":         {"TYPE NAME -n NAMESPACE", "TYPE/NAME", "TYPE,pods", "TYPE -l SELECTOR", "TYPE -A -l SELECTOR", "-f FILE"},
	"edit":             {"TYPE NAME -n NAMESPACE", "TYPE/NAME"},
	"explain":          {"TYPE NAME -n NAMESPACE", "TYPE/NAME"},
	"tree":             {"TYPE NAME -n NAMESPACE", "TYPE/NAME --up"},
	"uses":             {"TYPE NAME -n NAMESPACE", "TYPE/NAME"},
	"used-by":          {"TYPE NAME -n NAMESPACE", "TYPE/NAME"},
	"events":           {"TYPE/NAME -n NAMESPACE", "TYPE NAME", "--for=TYPE/NAME", "--for=NAME"},
	"watch":            {"TYPE -n NAMESPACE --timeout=1ms --watch-only", "TYPE NAME --timeout=1ms --watch-only", "TYPE -l SELECTOR --timeout=1ms --watch-only"},
	"wait":             {"--for=delete TYPE NAME -n NAMESPACE", "--for=delete TYPE/NAME", "--for=delete TYPE -l SELECTOR", "--for=delete TYPE --field-selector FIELDS", "--for=delete -f FILE"},
	"delete":           {"TYPE NAME -n NAMESPACE", "TYPE/NAME", "TYPE,pods --all", "TYPE --all -n NAMESPACE", "TYPE --all -A", "TYPE -l SELECTOR", "TYPE --all -l SELECTOR", "TYPE -A -l SELECTOR", "TYPE --field-selector FIELDS", "-f FILE", "TYPE NAME --dry-run=cascade"},
	"plan delete":      {"TYPE NAME -n NAMESPACE", "TYPE/NAME", "TYPE -l SELECTOR", "configmaps/a TYPE -l SELECTOR", "configmaps/a TYPE --all", "TYPE --all -A", "TYPE --all -l SELECTOR", "TYPE --field-selector FIELDS", "-f FILE"},
	"label":            {"TYPE NAME -n NAMESPACE x=y", "TYPE/NAME x=y", "TYPE --all x=y", "TYPE -l SELECTOR x=y", "TYPE --all -l SELECTOR x=y", "TYPE --field-selector FIELDS x=y", "-f FILE x=y"},
	"annotate":         {"TYPE NAME -n NAMESPACE x=y", "TYPE/NAME x=y", "TYPE --all x=y", "TYPE -l SELECTOR x=y", "TYPE --all -l SELECTOR x=y", "TYPE --field-selector FIELDS x=y", "-f FILE x=y"},
	"patch":            {"TYPE NAME -n NAMESPACE -p {}", "TYPE/NAME -p {\"x\":1}", "TYPE --all -p {\"x\":1}", "TYPE -l SELECTOR -p {\"x\":1}", "TYPE --all -l SELECTOR -p {\"x\":1}", "-f FILE -p {\"x\":1}"},
	"protect":          {"TYPE NAME -n NAMESPACE --reason r", "TYPE/NAME --reason r", "TYPE --all --reason r", "TYPE -l SELECTOR --reason r", "TYPE --all -l SELECTOR --reason r", "-f FILE --reason r"},
	"unprotect":        {"TYPE NAME -n NAMESPACE --reason r", "TYPE/NAME --reason r", "TYPE --all --reason r", "TYPE -l SELECTOR --reason r", "TYPE --all -l SELECTOR --reason r", "-f FILE --reason r"},
	"policy veto":      {"TYPE NAME -n NAMESPACE --for=1h --reason r", "TYPE/NAME --for=1h --reason r", "TYPE -l SELECTOR --for=1h --reason r"},
	"policy agree":     {"TYPE NAME -n NAMESPACE --reason r", "TYPE/NAME --reason r", "TYPE -l SELECTOR --reason r"},
	"policy list":      {"NAME"},
	"policy test":      {"FILE"},
	"finalizer remove": {"TYPE/NAME example.com/hold -n NAMESPACE --reason r", "TYPE/NAME example.com/hold --reason r --force", "configmaps/a NAME --reason r"},
	"brake release":    {"TYPE"},
	"apply":            {"-f FILE -n NAMESPACE", "-f FILE -l SELECTOR"},
	"create":           {"-f FILE -n NAMESPACE", "-f FILE -l SELECTOR"},
	"replace":          {"-f FILE -n NAMESPACE", "-f FILE -l SELECTOR"},
	"import":           {"-f FILE -n NAMESPACE"},
	"diff":             {"-f FILE -n NAMESPACE", "-f FILE -l SELECTOR", "1 2 -n NAMESPACE", "NAME 2"},
	"restore":          {"NAME"},
	"parked show":      {"NAME"},
	"parked retry":     {"NAME"},
	"parked drop":      {"NAME"},
	"realm create":     {"REALM"},
	"realm delete":     {"REALM --confirm default --without-archive", "default --confirm REALM --without-archive"},
	"realm describe":   {"REALM"},
	"realm resume":     {"REALM"},
	"realm set":        {"REALM ownerGrace=1m", "default NAME"},
	"realm restore":    {"REALM --from file:///none --secret FILE"},
	"log cat":          {"FILE"},
	"log stats":        {"FILE"},
	"log verify":       {"FILE"},
	"secret add":       {"FILE"},
	"replay":           {"FILE --offline offline", "FILE --what-if FILE"},
}

// otherCommands are the other commands, each with the reason why it is not among askingCommands. A name
// that ends with a blank stands for the commands below it.
var otherCommands = map[string]string{
	"":               "prints help",
	"archive":        "prints help",
	"auth":           "prints help",
	"auth ":          "asks about any names, also those that there are none of",
	"nats-config ":   "reads a users file, and needs no realm",
	"brake":          "prints help",
	"finalizer":      "prints help",
	"log":            "prints help",
	"plan":           "prints help",
	"policy":         "prints help",
	"leader":         "prints help",
	"realm":          "prints help",
	"archive ":       "reads and writes archives, which URLs name",
	"bench ":         "runs benchmarks in realms of its own",
	"demo":           "runs in a realm of its own",
	"up":             "runs services",
	"graph":          "runs a service",
	"processor":      "runs a service",
	"finalizers":     "runs a service",
	"scanner":        "runs a service",
	"console":        "runs a service",
	"api-resources":  "lists all kinds; an empty group is the core group",
	"brake status":   "lists the brakes of all kinds",
	"finalizer list": "lists all finalizers",
	"leader list":    "lists the leaders of all controllers",
	"realm list":     "lists all realms",
	"parked":         "lists all parked work",
	"doctor":         "examines all realms; TestDoctor",
	"backup":         "backs up all realms",
	"restore-backup": "restores all realms of a backup",
	"nats-config":    "prints a configuration of users",
	"rebuild":        "changes the state in a directory; TestScripts/rebuild",
	"audit":          "writes the whole log, or what --actor selects",
	"record":         "writes the file that it names",
	"ready":          "asks the HTTP servers of services",
	"secret new":     "writes the file that it names",
	"verify":         "compares the whole realm with its log",
	"version":        "prints the version",
	"man":            "writes the manual pages",
}

// wrongValues are values that name nothing.
var wrongValues = []string{"", " ", ",", "a/b/c"}

// placeholders returns the valid values in calls; dir is the directory of the files.
func placeholders(dir string) map[string]string {
	return map[string]string{
		"TYPE": "configmaps", "NAME": "a", "NAMESPACE": "default", "SELECTOR": "app=web", "FIELDS": "metadata.name=a", "REALM": "default", "CONTEXT": "none",
		"FILE": filepath.Join(dir, "objects.yaml"),
	}
}

// placeholder is a word in upper case in a call.
var placeholder = regexp.MustCompile(`[A-Z]{4,}`)

// wrongCalls returns the arguments of a call with each wrong value of each of its words in upper case.
func wrongCalls(call, dir string) (list [][]string) {
	valid := placeholders(dir)
	for n := range placeholder.FindAllString(call, -1) {
		for _, wrong := range wrongValues {
			i := -1
			var args []string
			for word := range strings.FieldsSeq(call) {
				args = append(args, placeholder.ReplaceAllStringFunc(word, func(name string) string {
					if i++; i == n {
						return wrong
					}
					return valid[name]
				}))
			}
			list = append(list, args)
		}
	}
	return list
}

// eachCommand calls visit for every command that runs, with its name without the program's.
func eachCommand(visit func(name string, c *cobra.Command)) {
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Runnable() {
			_, name, _ := strings.Cut(c.CommandPath(), " ")
			visit(name, c)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(strings.NewReader(""), io.Discard, io.Discard))
}

// Each command is in a list, and the calls of the asking commands have everything that a command takes.
func TestEveryCommandIsAsked(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	eachCommand(func(name string, c *cobra.Command) {
		parent, _, _ := strings.Cut(name, " ")
		calls, asks := askingCommands[name]
		other := name
		if otherCommands[other] == "" && parent != name {
			other = parent + " "
		}
		if (otherCommands[other] != "") == asks {
			t.Errorf("coppice %s: add it to askingCommands, or to otherCommands with a reason", name)
		}
		known[name], known[other] = true, true
		if !asks {
			return
		}
		takes := map[string]bool{
			"TYPE": strings.Contains(c.Use, "TYPE"), "FILE": strings.Contains(c.Use, "FILE"), "NAME": strings.Contains(c.Use, "TYPE"),
		}
		for flag, word := range map[string]string{"namespace": "NAMESPACE", "selector": "SELECTOR", "field-selector": "FIELDS", "filename": "FILE"} {
			takes[word] = takes[word] || c.Flags().Lookup(flag) != nil
		}
		for word, is := range takes {
			if is && !slices.ContainsFunc(calls, func(call string) bool { return slices.Contains(placeholder.FindAllString(call, -1), word) }) {
				t.Errorf("coppice %s takes %s, and no call of it has one", name, word)
			}
		}
	})
	for _, name := range slices.Concat(slices.Collect(maps.Keys(askingCommands)), slices.Collect(maps.Keys(otherCommands))) {
		if !known[name] {
			t.Errorf("there is no command %q", name)
		}
	}
}

// Every command refuses empty and wrong types, names, namespaces, selectors, realms and files, or prints nothing, and
// nothing changes. The realm has a kind without a singular, and an object for each call to hit.
func TestWrongValues(t *testing.T) {
	t.Parallel()
	ctx, dir := testkit.Context(t), t.TempDir()
	running := startStack(t, allinone.Config{})
	must.Succeed(t, os.WriteFile(placeholders(dir)["FILE"], []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n"), 0o600))
	revision := hitRealm(ctx, t, running.Server().URL())
	env := []string{
		"NATS_URL=" + running.Server().URL(), "COPPICE_ACTOR=ana", "COPPICE_EDITOR=false", "HOME=" + dir, "PATH=" + os.Getenv("PATH"),
		"NATS_TIMEOUT=" + testkit.Timeout.String(), "TMPDIR=" + dir,
	}
	w := startWorker(t, env)
	before := revision()
	eachCommand(func(name string, c *cobra.Command) {
		calls := slices.Clone(askingCommands[name])
		for flag, word := range map[string]string{"realm": "REALM", "context": "CONTEXT"} {
			if len(calls) > 0 && c.Flags().Lookup(flag) != nil {
				calls = append(calls, calls[0]+" --"+flag+"="+word)
			}
		}
		for _, call := range calls {
			for _, args := range wrongCalls(call, dir) {
				args = append(strings.Fields(name), args...)
				o, err := w.Do(worker.Command{Dir: dir, Env: env, Args: args})
				must.Succeed(t, err)
				// A comma may be the name of an object, and one that does not exist counts as deleted.
				waited := name == "wait" && string(o.Stdout) == "no such objects exist\n" && slices.ContainsFunc(args, func(a string) bool { return a == "," || a == "configmaps/," })
				if o.Code != 1 && o.Code != 2 && len(o.Stdout) > 0 && !waited {
					t.Errorf("coppice %q: exit code %d, and it prints %s", args, o.Code, o.Stdout)
				}
				if is := revision(); is != before {
					t.Errorf("coppice %q: the realm is at revision %d, was at %d; it says %s%s", args, is, before, o.Stdout, o.Stderr)
					before = is
				}
			}
		}
	})
}

// hitRealm creates what wrong calls must not hit, and returns a function that returns the realm's revision.
func hitRealm(ctx context.Context, t *testing.T, url string) func() uint64 {
	t.Helper()
	nc, err := nats.Connect(url, nats.Timeout(testkit.Timeout))
	must.Succeed(t, err)
	t.Cleanup(nc.Close)
	c := client.New(nc)
	kind := client.Kind{Group: "example.com", Kind: "Thing", Plural: "things", Scope: "Namespaced", Versions: []client.KindVersion{{Name: "v1"}}}
	if _, err := c.Resource(client.KindsResource, "").Create(ctx, client.NewKindObject(kind)); err != nil {
		t.Fatal(err)
	}
	for resource, o := range map[client.Resource]*coppicev1.Object{
		{Plural: "configmaps"}:  {ApiVersion: "v1", Kind: "ConfigMap", Metadata: &coppicev1.ObjectMeta{Name: "a", Labels: map[string]string{"app": "web"}, Finalizers: []string{"example.com/hold"}}},
		client.ResourceOf(kind): {ApiVersion: "example.com/v1", Kind: "Thing", Metadata: &coppicev1.ObjectMeta{Name: "a"}},
	} {
		if _, err := c.Resource(resource, "default").Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	return func() uint64 {
		page, err := c.Resource(client.KindsResource, "").ListPage(ctx, client.Limit(1))
		must.Succeed(t, err)
		return page.Revision
	}
}

// Each flag with text refuses an empty value, apart from those that mayBeEmpty lists.
func TestEmptyFlags(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	eachCommand(func(name string, c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if textsOf(f) == nil {
				return
			}
			into := f.Value
			if single, ok := into.(*once); ok {
				into = single.Value
			}
			for value, ok := range map[string]bool{"": mayBeEmpty[f.Name] != "", " ": false} {
				a := &cli.App{}
				given := &cobra.Command{}
				given.Flags().AddFlag(&pflag.Flag{Name: f.Name, Value: into})
				if err := given.Flags().Set(f.Name, value); err != nil {
					t.Fatal(fmt.Errorf("coppice %s --%s: %w", name, f.Name, err))
				}
				if err := checkGiven(a, given, nil); (err == nil) != ok {
					t.Errorf("coppice %s --%s=%q: %v", name, f.Name, value, err)
				}
			}
			used[f.Name] = true
		})
	})
	for name := range mayBeEmpty {
		if !used[name] {
			t.Errorf("no command has the flag --%s", name)
		}
	}
}

// A requirement without a value is refused in the selectors of commands that change objects; those that
// read take it as Kubernetes does.
func TestRequirementsWithoutValue(t *testing.T) {
	t.Parallel()
	reads := []string{"get", "describe", "diff", "wait", "watch"}
	values := map[string]map[string]string{
		"selector": {
			"app!=": `"app!=" has no value: write one, or 'app notin (,)' if the empty value is meant`, "app=": "or 'app in (,)' if",
			"x,app == ,y=z": `"app ==" has no value: write one, or 'app in (,)' if`, "app=web,!x,app in (a,)": "", "app notin (,)": "",
			"x,app notin ( )": `"app notin ( )" has no value: write one, or 'app notin (,)' if`, "app in(),x": "or 'app in (,)' if",
		},
		"field-selector": {"metadata.name!=": `"metadata.name!=" has no value: write one, or leave it out`, "metadata.name=": "has no value", "metadata.name=a": ""},
	}
	eachCommand(func(name string, c *cobra.Command) {
		for flag, cases := range values {
			f := c.Flags().Lookup(flag)
			if f == nil {
				continue
			}
			for value, says := range cases {
				given := &cobra.Command{Use: c.Name()}
				given.Flags().AddFlag(&pflag.Flag{Name: flag, Value: f.Value.(*once).Value})
				must.Succeed(t, given.Flags().Set(flag, value))
				want := says
				if slices.Contains(reads, name) {
					want = ""
				}
				if err := checkGiven(&cli.App{}, given, nil); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("coppice %s --%s=%q: %v", name, flag, value, err)
				}
			}
		}
	})
}

// Each flag that takes one value refuses another one, and each duration a negative one.
func TestFlagsOnce(t *testing.T) {
	t.Parallel()
	values := map[string][2]string{"bool": {"true", "false"}, "duration": {"1s", "2s"}} // of other types: 1 and 2
	eachCommand(func(name string, c *cobra.Command) {
		if runsServices(c) {
			return
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if _, list := f.Value.(pflag.SliceValue); list || f.Hidden { // hidden: it is not offered
				return
			}
			value, ok := values[f.Value.Type()]
			if !ok {
				value = [2]string{"1", "2"}
			}
			for _, same := range []string{value[0], value[0]} {
				if err := c.Flags().Set(f.Name, same); err != nil {
					t.Errorf("coppice %s --%s=%s: %v", name, f.Name, same, err)
				}
			}
			if err := c.Flags().Set(f.Name, value[1]); err == nil {
				t.Errorf("coppice %s --%s=%s --%s=%s is accepted", name, f.Name, value[0], f.Name, value[1])
			}
			if f.Value.Type() == "duration" {
				given := &cobra.Command{}
				given.Flags().AddFlag(&pflag.Flag{Name: f.Name, Value: f.Value.(*once).Value})
				must.Succeed(t, given.Flags().Set(f.Name, "-1s"))
				if err := checkGiven(&cli.App{}, given, nil); err == nil {
					t.Errorf("coppice %s --%s=%s is accepted", name, f.Name, f.Value)
				}
			}
		})
	})
}
