package docs_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

const (
	runbooksDir   = "docs/runbooks"
	monitoringDir = "deploy/monitoring"
	runbookURL    = "https://github.com/coppice-gc/coppice/blob/main/docs/runbooks/%s.md"
)

// alertRules are the files of rules of Prometheus.
type alertRules struct {
	Groups []struct {
		Rules []struct {
			Alert       string            `yaml:"alert"`
			Expr        string            `yaml:"expr"`
			Labels      map[string]string `yaml:"labels"`
			Annotations map[string]string `yaml:"annotations"`
		} `yaml:"rules"`
	} `yaml:"groups"`
}

// alertTests are the files that promtool test rules reads.
type alertTests struct {
	Tests []struct {
		Cases []struct {
			Alert  string `yaml:"alertname"`
			Alerts []any  `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	} `yaml:"tests"`
}

// monitoring is what TestRunbooks compares.
type monitoring struct {
	rules alertRules
	tests []alertTests
	pages map[string]string // the runbooks, by the name of the alert
	table string            // README.md
}

func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	must.Succeed(t, err)
	must.Succeed(t, yaml.Unmarshal(data, into))
}

func readMonitoring(t *testing.T) *monitoring {
	t.Helper()
	m := &monitoring{pages: map[string]string{}}
	readYAML(t, filepath.Join(module, monitoringDir, "rules.yaml"), &m.rules)
	files, err := filepath.Glob(filepath.Join(module, monitoringDir, "rules*_test.yaml"))
	must.Succeed(t, err)
	for _, file := range files {
		var tests alertTests
		readYAML(t, file, &tests)
		m.tests = append(m.tests, tests)
	}
	files, err = filepath.Glob(filepath.Join(module, runbooksDir, "*.md"))
	must.Succeed(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		must.Succeed(t, err)
		if name := strings.TrimSuffix(filepath.Base(file), ".md"); name == "README" {
			m.table = string(data)
		} else {
			m.pages[name] = string(data)
		}
	}
	return m
}

// sectionsOfRunbook are the headings of a runbook behind its name.
var sectionsOfRunbook = []string{"## Meaning", "## Impact", "## Check", "## Cure", "## See also"}

var anyHeading = regexp.MustCompile(`(?m)^#{1,6} .*$`)

// problems returns where rules, tests, runbooks and their table do not fit each other.
func (m *monitoring) problems() (list []string) {
	report := func(alert, format string, args ...any) {
		list = append(list, alert+": "+fmt.Sprintf(format, args...))
	}
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, file := range m.tests {
		for _, test := range file.Tests {
			for _, c := range test.Cases {
				fires[c.Alert] = fires[c.Alert] || len(c.Alerts) > 0
				quiet[c.Alert] = quiet[c.Alert] || len(c.Alerts) == 0
			}
		}
	}
	severities := map[string]string{}
	for _, group := range m.rules.Groups {
		for _, r := range group.Rules {
			severity := r.Labels["severity"]
			if was, again := severities[r.Alert]; again {
				if was != severity {
					report(r.Alert, "has the severities %s and %s", was, severity)
				}
			}
			severities[r.Alert] = severity
			if severity != "critical" && severity != "warning" {
				report(r.Alert, "has the severity %q, not critical or warning", severity)
			}
			if want := fmt.Sprintf(runbookURL, r.Alert); r.Annotations["runbook_url"] != want {
				report(r.Alert, "has the runbook_url %q, not %s", r.Annotations["runbook_url"], want)
			}
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				report(r.Alert, "has no summary or no description")
			}
		}
	}
	for alert, severity := range severities {
		if !fires[alert] || !quiet[alert] {
			report(alert, "has a test in which it fires: %t; one in which it does not: %t", fires[alert], quiet[alert])
		}
		if row := fmt.Sprintf("\n| [%s](%s.md) | %s | ", alert, alert, severity); strings.Count(m.table, row) != 1 {
			report(alert, "is not once in the table, with its severity")
		}
		if _, ok := m.pages[alert]; !ok {
			report(alert, "has no runbook")
		}
	}
	for alert, text := range m.pages {
		if _, ok := severities[alert]; !ok {
			report(alert, "has a runbook and no rule")
		}
		blocks, text := split(alert, text)
		if got, want := anyHeading.FindAllString(text, -1), append([]string{"# " + alert}, sectionsOfRunbook...); !slices.Equal(got, want) {
			report(alert, "has the headings %q, not %q", got, want)
		}
		if !slices.ContainsFunc(blocks, func(b block) bool { return b.lang == script && len(b.commands()) > 0 }) {
			report(alert, "has no block of %s with a coppice command", script)
		}
	}
	if n := strings.Count(m.table, "\n| [Coppice"); n != len(severities) {
		report("README.md", "has a table of %d alerts, and there are %d", n, len(severities))
	}
	slices.Sort(list)
	return list
}

// Every alert has a runbook, a row in their table, a test in which it fires and one in which it does not.
func TestRunbooks(t *testing.T) {
	t.Parallel()
	m := readMonitoring(t)
	if len(m.rules.Groups) == 0 || len(m.tests) == 0 || len(m.pages) == 0 {
		t.Fatalf("%d groups of rules, %d files of tests, %d runbooks", len(m.rules.Groups), len(m.tests), len(m.pages))
	}
	for _, p := range m.problems() {
		t.Error(p)
	}
}

// What is wrong is reported.
func TestRunbookProblems(t *testing.T) {
	t.Parallel()
	const alert = "CoppiceNoWriter"
	for _, c := range []struct {
		breaks func(m *monitoring)
		want   string
	}{
		{func(m *monitoring) { delete(m.pages, alert) }, "has no runbook"},
		{func(m *monitoring) { m.pages["CoppiceNothing"] = m.pages[alert] }, "CoppiceNothing: has a runbook and no rule"},
		{func(m *monitoring) { m.pages[alert] = strings.Replace(m.pages[alert], "## Cure", "## Cures", 1) }, "has the headings"},
		{func(m *monitoring) { m.pages[alert] = strings.Replace(m.pages[alert], "```bash", "```sh", 1) }, "has no block of bash"},
		{func(m *monitoring) { m.table = strings.Replace(m.table, "| critical |", "| warning |", 1) }, "is not once in the table"},
		{func(m *monitoring) { m.table += "| [CoppiceNothing](CoppiceNothing.md) | warning | x |\n" }, "README.md: has a table of"},
		{func(m *monitoring) { m.rules.Groups[0].Rules[0].Labels["severity"] = "info" }, `has the severity "info"`},
		{func(m *monitoring) { m.rules.Groups[0].Rules[0].Labels["severity"] = "warning" }, "has the severities warning and critical"},
		{func(m *monitoring) { m.rules.Groups[0].Rules[0].Annotations["runbook_url"] = "x" }, `has the runbook_url "x"`},
		{func(m *monitoring) { m.rules.Groups[0].Rules[0].Annotations["summary"] = "" }, "has no summary"},
		{func(m *monitoring) { m.tests = nil }, alert + ": has a test in which it fires: false; one in which it does not: false"},
		{func(m *monitoring) { // the cases in which it fires alone
			for _, file := range m.tests {
				for i := range file.Tests {
					file.Tests[i].Cases = slices.DeleteFunc(file.Tests[i].Cases, func(c struct {
						Alert  string `yaml:"alertname"`
						Alerts []any  `yaml:"exp_alerts"`
					}) bool {
						return len(c.Alerts) == 0
					})
				}
			}
		}, alert + ": has a test in which it fires: true; one in which it does not: false"},
	} {
		m := readMonitoring(t)
		c.breaks(m)
		if got := m.problems(); !slices.ContainsFunc(got, func(p string) bool { return strings.Contains(p, c.want) }) {
			t.Errorf("got %q, want one with %q", got, c.want)
		}
	}
}

var (
	metric       = regexp.MustCompile(`\bcoppice_(?:graph|processor|finalizers|scanner|build|nats)_[a-z_]+[a-z]`)
	metricSuffix = regexp.MustCompile(`prefix \+ "([a-z_]+)"`)
)

// Every metric of the rules and the runbooks is one that a service has.
func TestRunbookMetrics(t *testing.T) {
	t.Parallel()
	has := map[string]bool{}
	walk(t, ".go", func(name string, data []byte) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		for _, m := range metric.FindAllString(string(data), -1) {
			has[m] = true
		}
		if path.Base(path.Dir(name)) == "workermetrics" {
			for _, m := range metricSuffix.FindAllStringSubmatch(string(data), -1) {
				has["coppice_processor_"+m[1]], has["coppice_finalizers_"+m[1]] = true, true
			}
		}
	})
	m := readMonitoring(t)
	texts := map[string]string{"README.md": m.table}
	for alert, text := range m.pages {
		texts[alert+".md"] = text
	}
	for _, group := range m.rules.Groups {
		for _, r := range group.Rules {
			texts["rules.yaml: "+r.Alert] = r.Expr
			if !metric.MatchString(r.Expr) {
				t.Errorf("%s: no metric of Coppice in %s", r.Alert, r.Expr)
			}
		}
	}
	for of, text := range texts {
		for _, name := range metric.FindAllString(text, -1) {
			base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_sum"), "_count"), "_bucket")
			if !has[name] && !has[base] {
				t.Errorf("%s: no service has the metric %s", of, name)
			}
		}
	}
}

// The commands of the sections "Check" work in a realm with a deletion that waits. Only the address of an archive is replaced.
// TestReady and TestDoctor in cmd/coppice run `coppice ready` and `coppice doctor`.
func TestRunbookCommands(t *testing.T) {
	t.Parallel()
	s := &shell{player: start(t, "", false)}
	examples, err := filepath.Abs(filepath.Join(module, "examples"))
	must.Succeed(t, err)
	s.succeeds(t, "coppice import -f "+filepath.Join(examples, "shop"))
	s.succeeds(t, "coppice delete deploy/web -n shop --cascade=foreground")
	s.succeeds(t, "coppice realm create gone")
	s.succeeds(t, "coppice realm delete gone --confirm gone") // so that the archive has entries
	testkit.WaitFor(t, s.ctx, "the Pod to be marked", func() bool {
		s.succeeds(t, "coppice explain pods/web-7d4-x -n shop")
		return strings.Contains(s.output(), "is blocked by example.com/bucket (no consumer)")
	})
	archive := strings.NewReplacer("file:///backup/archive", "file://"+filepath.Join(s.dir, "archive"))
	_, _, all := pages(t)
	ran := map[string]bool{}
	for _, c := range all {
		if path.Dir(c.file) != runbooksDir || !c.script || slices.ContainsFunc([]string{"coppice ready", "coppice doctor"}, func(p string) bool { return strings.HasPrefix(c.text, p) }) || ran[c.text] {
			continue
		}
		ran[c.text] = true
		s.forget()
		if s.run(t, archive.Replace(c.text)); s.err != nil {
			t.Errorf("%s: %v\n%s", c, s.err, s.output())
		}
	}
	if len(ran) < 10 {
		t.Errorf("the runbooks show only the commands %v", ran)
	}
}
