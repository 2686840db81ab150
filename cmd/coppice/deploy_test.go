package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coppice-gc/coppice/internal/bus/natsconf"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// What files below deploy name, each with a pattern whose first group is the name. The file of the NATS
// configuration is compared with what generates it: internal/bus/natsconf.
var deployNames = []struct {
	what    string
	pattern *regexp.Regexp
}{
	{"variable", regexp.MustCompile(`\b((?:COPPICE|NATS)_[A-Z][A-Z0-9_]*)\b`)},
	{"flag", flagNames},
	{"port", regexp.MustCompile(`(?i)(?:port:? ?|[a-z*\]"/ =]:|\.\d+:)([1-9]\d{3,4})\b`)},
	{"metric", regexp.MustCompile(`\b(coppice_(?:graph|processor|finalizers|scanner|build|nats)_[a-z_]+)\b`)},
	{"file", regexp.MustCompile("(?:^|[\\s\"'`(=])((?:\\.\\./)*(?:cmd|deploy|docs|examples|internal|test|tools)/[\\w./-]*\\w)")},
	{"subject", regexp.MustCompile("[\"'`](coppice\\.(?:[\\w*<>-]+\\.)+[\\w*<>-]+)[\"'`]")},
}

var flagNames = regexp.MustCompile(`(?m)(?:^|[^-\w])--([a-z][a-z-]+)\b`)

// othersFlags are the flags of other programs that files below deploy name.
var othersFlags = map[string][]string{
	"podman, and instructions of a Dockerfile": {
		"build-arg", "cap-drop", "chown", "detach", "env", "file", "format", "input", "name", "network", "no-healthcheck", "platform", "publish", "read-only", "retries",
		"rm", "security-opt", "start-period", "stop-timeout", "tag", "tmpfs", "volume", "volumes", "workdir",
	},
	"kubectl and helm": {"from-file", "from-literal", "reset-then-reuse-values", "server-side", "set", "values", "version"},
	"nats-server":      {"config", "signal"},
	"prometheus":       {"storage"},
	"systemd-tmpfiles": {"create"},
}

// ports that are not those of Coppice's HTTP servers.
var othersPorts = map[string]string{
	"4222": "clients of NATS", "6222": "routes of NATS", "8222": "monitoring of NATS", "9090": "Prometheus",
	"4223": "clients of a second NATS server", "4224": "clients of a third NATS server", "3000": "Grafana",
}

// composeVariables name images in files of Compose.
var composeVariables = []string{"COPPICE_IMAGE", "NATS_IMAGE"}

// serviceVariables are the variables of the environment that Coppice reads, or that its NATS configuration names.
func serviceVariables() map[string]bool {
	known := map[string]bool{"COPPICE_SECRET": true, "COPPICE_ACTOR": true}
	for _, r := range natsconf.DefaultRoles() {
		known[natsconf.PasswordVariable(r.Name)] = true
	}
	for _, name := range composeVariables {
		known[name] = true
	}
	inHelp := regexp.MustCompile(`\(\$((?:COPPICE|NATS)_[A-Z_]+)`)
	eachFlag(func(f *pflag.Flag) {
		for _, m := range inHelp.FindAllStringSubmatch(f.Usage, -1) {
			known[m[1]] = true
		}
	})
	return known
}

func eachFlag(visit func(*pflag.Flag)) {
	eachCommand(func(_ string, c *cobra.Command) {
		c.Flags().VisitAll(visit)
		c.InheritedFlags().VisitAll(visit)
	})
}

// metricNames are the names of all metrics, from the code that registers them.
func metricNames(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	name, suffix := regexp.MustCompile(`"(coppice_[a-z_]+)"`), regexp.MustCompile(`prefix \+ "([a-z_]+)"`)
	for _, dir := range []string{"../../services", "../../internal"} {
		must.Succeed(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			data, err := os.ReadFile(path)
			for _, m := range name.FindAllSubmatch(data, -1) {
				known[string(m[1])] = true
			}
			for _, m := range suffix.FindAllSubmatch(data, -1) {
				for _, service := range []string{"processor", "finalizers"} {
					known["coppice_"+service+"_"+string(m[1])] = true
				}
			}
			return err
		}))
	}
	return known
}

// deployed knows what files below deploy may name.
type deployed struct {
	variables, flags, metrics map[string]bool
	subjects                  string
}

func newDeployed(t *testing.T) *deployed {
	t.Helper()
	d := &deployed{variables: serviceVariables(), metrics: metricNames(t), flags: map[string]bool{"help": true}}
	eachFlag(func(f *pflag.Flag) { d.flags[f.Name] = true })
	for program, list := range othersFlags {
		for _, name := range list {
			if d.flags[name] {
				t.Errorf("othersFlags: --%s of %s is in the list already, or a flag of coppice: leave it out", name, program)
			}
			d.flags[name] = true
		}
	}
	subjects, err := os.ReadFile("../../deploy/nats/coppice.conf")
	must.Succeed(t, err)
	d.subjects = string(subjects)
	return d
}

// part is the end of a name by which Prometheus reads a histogram.
var part = regexp.MustCompile(`_(bucket|sum|count)$`)

// exists reports whether what a file names exists.
func (d *deployed) exists(what, file, name string) bool {
	switch what {
	case "variable":
		return d.variables[name]
	case "flag":
		return d.flags[name]
	case "port":
		return othersPorts[name] != "" || name >= "9440" && name <= "9443"
	case "metric":
		return d.metrics[name] || d.metrics[part.ReplaceAllString(name, "")]
	case "subject":
		return strings.Contains(d.subjects, `"`+name+`"`)
	}
	for _, from := range []string{"../..", filepath.Dir(file)} {
		if found, _ := filepath.Glob(filepath.Join(from, name)); len(found) > 0 {
			return true
		}
	}
	return false
}

// unknown returns what a file names and what does not exist, in the order of deployNames.
func (d *deployed) unknown(file string, data []byte) (list []string) {
	for _, n := range deployNames {
		for _, m := range n.pattern.FindAllSubmatch(data, -1) {
			if name := string(m[1]); !d.exists(n.what, file, name) {
				list = append(list, n.what+" "+name)
			}
		}
	}
	return list
}

// Each file below deploy names flags, variables, ports, metrics, files and subjects that exist.
func TestDeploy(t *testing.T) {
	t.Parallel()
	d, files := newDeployed(t), 0
	named := map[string]bool{}
	must.Succeed(t, filepath.WalkDir("../../deploy", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || strings.HasSuffix(filepath.ToSlash(path), "deploy/nats/coppice.conf") {
			return err
		}
		files++
		for _, m := range flagNames.FindAllSubmatch(data, -1) {
			named[string(m[1])] = true
		}
		for _, name := range d.unknown(path, data) {
			t.Errorf("%s: there is no %s", path, name)
		}
		return nil
	}))
	if files < 20 {
		t.Errorf("only %d files were read", files)
	}
	for program, list := range othersFlags {
		for _, name := range list {
			if !named[name] {
				t.Errorf("othersFlags: no file names --%s of %s: leave it out", name, program)
			}
		}
	}
}

// A chart of Helm cannot name files outside of it: it has a copy of the alerts.
func TestChartHasAlerts(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("../../deploy/monitoring/rules.yaml")
	must.Succeed(t, err)
	got, err := os.ReadFile("../../deploy/helm/coppice/rules/coppice.yaml")
	if err != nil || string(got) != string(want) {
		t.Errorf("%v: run cp deploy/monitoring/rules.yaml deploy/helm/coppice/rules/coppice.yaml", err)
	}
}

func TestDeployNotices(t *testing.T) {
	t.Parallel()
	d := newDeployed(t)
	const wrong = `
COPPICE_HTPP=:9444 # see docs/instal.md
coppice graph --replica 3
expr: coppice_graph_commit_minutes_bucket
allow: ["coppice.*.api.unknown.get.*.*.*"]
`
	want := []string{"variable COPPICE_HTPP", "flag replica", "port 9444", "metric coppice_graph_commit_minutes_bucket", "file docs/instal.md", "subject coppice.*.api.unknown.get.*.*.*"}
	if got := d.unknown("../../deploy/x", []byte(wrong)); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	const right = `
COPPICE_HTTP=:9440 # see docs/operations.md, ../README.md and deploy/nats/*
coppice graph --replicas 3
expr: coppice_graph_commit_seconds_bucket
allow: ["coppice.*.api.application.get.*.*.*"]
`
	if got := d.unknown("../../deploy/x", []byte(right)); len(got) > 0 {
		t.Errorf("found %q", got)
	}
}
