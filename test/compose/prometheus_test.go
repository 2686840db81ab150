package compose_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// prometheus is the server of the cluster, asked at the port that it publishes.
type prometheus struct{ u *user }

// get returns a list of the HTTP API: below data, or below data and a name.
func (p prometheus) get(path, name string) (list []map[string]any, err error) {
	reply, err := http.Get("http://127.0.0.1:9090/api/v1/" + path)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	var body struct{ Data map[string]json.RawMessage }
	if err := json.NewDecoder(reply.Body).Decode(&body); err != nil {
		return nil, err
	}
	return list, json.Unmarshal(body.Data[name], &list)
}

// quiet waits until Prometheus reaches each service and has no alert, neither one that fires nor one that would later.
func (p prometheus) quiet(targets int) {
	p.u.t.Helper()
	p.u.waitFor("Prometheus to reach each service, and to have no alert", func() (string, bool) {
		active, err := p.get("targets?state=active", "activeTargets")
		up := 0
		for _, target := range active {
			if target["health"] == "up" {
				up++
			}
		}
		alerts, alertsErr := p.get("alerts", "alerts")
		rules, rulesErr := p.get("rules?type=alert", "groups")
		return fmt.Sprintf("%d of %d targets are up (%v), alerts: %v (%v), %d groups of rules (%v)", up, len(active), err, alerts, alertsErr, len(rules), rulesErr),
			err == nil && alertsErr == nil && rulesErr == nil && up == targets && len(active) == targets && len(alerts) == 0 && len(rules) > 0
	})
}

// notices checks that there would be an alert if a service were missing.
func (p prometheus) notices() {
	p.u.t.Helper()
	c := containersOf(p.u, "cluster.yaml")["scanner-1"]
	p.u.engine.Podman(p.u.t, "stop", "--time", "60", c.name)
	p.u.waitFor("an alert, because no scanner runs", func() (string, bool) {
		alerts, err := p.get("alerts", "alerts")
		text := fmt.Sprint(alerts, err)
		return text, strings.Contains(text, "CoppiceServiceMissing")
	})
	p.u.engine.Podman(p.u.t, "start", c.name)
	p.quiet(7)
}
