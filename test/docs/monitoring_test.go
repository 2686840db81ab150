package docs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/coppice-gc/coppice/internal/poll"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
)

// expression is a PromQL expression of an alert or a panel.
type expression struct{ of, text string }

// comparison matches the operator of a comparison, apart from those in selectors of labels.
var comparison = regexp.MustCompile(` (==|!=|>=|<=|>|<) `)

// alerts returns the expressions of alerts, such that they have a result while nothing is wrong: comparisons return 0 or
// 1, and what absent looks for is there.
func alerts(t *testing.T) (list []expression) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(module, monitoringDir, "rules.yaml"))
	must.Succeed(t, err)
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	must.Succeed(t, yaml.Unmarshal(data, &file))
	earlier := regexp.MustCompile(` offset \w+`) // Prometheus has just begun
	absent := regexp.MustCompile(`absent\(([^()]*)\)`)
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			text := absent.ReplaceAllString(comparison.ReplaceAllString(earlier.ReplaceAllString(strings.Join(strings.Fields(r.Expr), " "), ""), " $1 bool "), "$1")
			list = append(list, expression{"the alert " + r.Alert, text})
		}
	}
	return list
}

// panels returns the expressions of dashboards, with values for the variables of Grafana.
func panels(t *testing.T) (list []expression) {
	t.Helper()
	variables := strings.NewReplacer("$namespace", ".*", "$realm", ".*", "$__rate_interval", "1m", "$__range", "10m")
	files, err := filepath.Glob(filepath.Join(module, monitoringDir, "dashboards", "*.json"))
	must.Succeed(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		must.Succeed(t, err)
		var dashboard struct {
			Title  string
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		must.Succeed(t, json.Unmarshal(data, &dashboard))
		for _, p := range dashboard.Panels {
			for _, target := range p.Targets {
				of := fmt.Sprintf("the panel %q of %q", p.Title, dashboard.Title)
				list = append(list, expression{of, comparison.ReplaceAllString(variables.Replace(target.Expr), " $1 bool ")})
			}
		}
	}
	return list
}

// Every expression of every alert and panel has a result in a Prometheus that scrapes Coppice, and the rules load.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	nightly.Test(t, nightly.Prometheus)
	all := append(alerts(t), panels(t)...)
	if len(all) < 50 {
		t.Fatalf("only %d expressions were found", len(all))
	}
	s := &shell{player: &player{ctx: testkit.Context(t), dir: t.TempDir()}}
	t.Cleanup(func() { s.end(t) })
	s.run(t, "coppice up &")
	ready := regexp.MustCompile(`health and metrics: http://(\S+)/metrics\n(?s:.*)ready in `)
	testkit.WaitFor(t, s.ctx, "coppice up", func() bool { return ready.MatchString(s.output()) })
	target := ready.FindStringSubmatch(s.output())[1]
	s.write(t, "a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, finalizers: [example.com/none]}\n")
	s.url = serverURL.FindString(s.output())
	s.succeeds(t, "coppice apply -f a.yaml")
	s.succeeds(t, "coppice delete cm/a --wait=false")
	base := prometheus(t, target)
	limited, cancel := context.WithTimeout(s.ctx, testkit.Timeout)
	defer cancel()
	missing := all
	_ = poll.UntilAt(limited, time.Second, func() (bool, error) {
		missing = slices.DeleteFunc(missing, func(e expression) bool { return len(query(s.ctx, t, base, e)) > 0 })
		return len(missing) == 0, nil
	})
	for _, e := range missing {
		t.Errorf("%s: no result of %s", e.of, e.text)
	}
	var loaded struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	testkit.WaitFor(t, s.ctx, "the rules to be evaluated", func() bool {
		getJSON(s.ctx, t, base+"/api/v1/rules", &loaded)
		for _, g := range loaded.Data.Groups {
			for _, r := range g.Rules {
				if r.Health == "unknown" {
					return false
				}
			}
		}
		return len(loaded.Data.Groups) > 0
	})
	n := 0
	for _, g := range loaded.Data.Groups {
		for _, r := range g.Rules {
			if n++; r.Health != "ok" {
				t.Errorf("the alert %s is %s: %s", r.Name, r.Health, r.LastError)
			}
		}
	}
	if n != len(alerts(t)) {
		t.Errorf("%d rules were loaded, want %d", n, len(alerts(t)))
	}
}

// prometheus starts a Prometheus that scrapes an address, and returns its URL.
func prometheus(t *testing.T, target string) string {
	t.Helper()
	dir := t.TempDir()
	rules, err := filepath.Abs(filepath.Join(module, monitoringDir, "rules.yaml"))
	must.Succeed(t, err)
	config := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n- job_name: coppice\n  static_configs: [{targets: [%q]}]\n", rules, target)
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	address := l.Addr().String()
	must.Succeed(t, l.Close())
	out := &strings.Builder{}
	c := exec.Command("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	c.Stdout, c.Stderr = out, out
	must.Succeed(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() {
			t.Log(out.String())
		}
	})
	return "http://" + address
}

func getJSON(ctx context.Context, t *testing.T, page string, into any) bool {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, page, http.NoBody)
	must.Succeed(t, err)
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		return false // it does not listen yet
	}
	defer reply.Body.Close()
	return json.NewDecoder(reply.Body).Decode(into) == nil
}

// query returns the results of an expression. It fails if the expression is invalid.
func query(ctx context.Context, t *testing.T, base string, e expression) []json.RawMessage {
	t.Helper()
	var reply struct {
		Status, ErrorType, Error string
		Data                     struct{ Result []json.RawMessage }
	}
	if getJSON(ctx, t, base+"/api/v1/query?query="+url.QueryEscape(e.text), &reply) && reply.Status == "error" && reply.ErrorType == "bad_data" {
		t.Fatalf("%s: %s: %s", e.of, e.text, reply.Error)
	}
	return reply.Data.Result
}
