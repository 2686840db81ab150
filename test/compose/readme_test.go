package compose_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/tools/image/engine"
)

// The commands of deploy/compose/README.md, followed word by word, start both installations, upgrade the cluster while
// it works, and leave nothing. In between, cascades survive the loss of a container of each kind.
//
// They are followed twice: with podman-compose, and with Docker Compose, which reaches podman by the API of Docker.
func TestReadme(t *testing.T) {
	for name, compose := range map[string]string{"podman-compose": podmanCompose, "Docker Compose": dockerCompose} {
		t.Run(name, func(t *testing.T) { follow(t, compose) })
	}
}

// follow follows the commands of the document. compose is the script that docker compose means.
func follow(t *testing.T, compose string) {
	e := engine.New(t, 40*time.Minute)
	standIns(t, e)
	u := newUser(t, e, compose)
	t.Cleanup(func() { e.Podman(t, "rm", "--all", "--force", "--volumes", "--time", "5") })

	var during *work // of the upgrade
	steps := []struct {
		has   string   // what tells the block apart
		want  []string // what it prints
		after func()
	}{
		{has: "docker load", want: []string{"localhost/coppice:0.1.0"}},
		{has: "up -d", want: []string{"is ready"}},
		{has: "operator()", want: []string{"removed 1/1", "state equals the log"}, after: func() { single(u) }},
		{has: "--volumes", after: func() { u.empty("ps --all --quiet", "volume ls --quiet") }},
		{has: "secret new"},
		{has: "up -d", want: []string{"graph at", "processor at", "finalizers at", "scanner at"}},
		{has: "../finalizer", want: []string{"cleaning up after pods/web-7d4-x", "removed 4/4", "state equals the log"}, after: func() { cluster(u) }},
		{has: "promtool", want: []string{"{} => 7 "}, after: func() { during = clusterWork(u, "upgrade") }},
		{has: "0.1.1", want: []string{"coppice 0.1.1 "}, after: func() { during.end(); upgraded(u) }},
		{has: "coppice backup", want: []string{"realm default: revision ", "realm default: would be restored at revision "}},
		{has: "down --timeout", after: func() { u.empty("ps --all --quiet", "volume ls --quiet") }},
		{has: "rm -r data"},
	}
	commands := blocks(t)
	if len(commands) != len(steps) {
		t.Fatalf("the document has %d blocks of commands, and the test knows %d", len(commands), len(steps))
	}
	for i, s := range steps {
		if !strings.Contains(commands[i], s.has) {
			t.Fatalf("block %d has no %q:\n%s", i, s.has, commands[i])
		}
		began := time.Now()
		out := u.enter(commands[i])
		t.Logf("block %d, %q: %.0f s", i, s.has, time.Since(began).Seconds())
		for _, want := range s.want {
			if !strings.Contains(out, want) {
				t.Fatalf("no %q in what is printed by\n%s\nbut\n%s\n%s", want, commands[i], out, u.logs())
			}
		}
		if s.has == "promtool" && regexp.MustCompile(`ALERTS\{.* => `).MatchString(out) {
			t.Errorf("alerts fire: %s", out)
		}
		if s.after != nil {
			s.after()
		}
	}
}

// empty checks that podman lists nothing.
func (u *user) empty(lists ...string) {
	u.t.Helper()
	for _, list := range lists {
		if left := u.engine.Podman(u.t, strings.Fields(list)...); left != "" {
			u.t.Errorf("podman %s prints\n%s", list, left)
		}
	}
}

// single sends cascades through the container of single.yaml, which is killed.
func single(u *user) {
	containers := containersOf(u, "single.yaml")
	confined(u, "single.yaml", containers)
	volume := u.engine.Podman(u.t, "volume", "ls", "--quiet", "--filter", "name=_data$")
	users := u.engine.Podman(u.t, "volume", "inspect", "--format", "{{.Mountpoint}}", volume) + "/users/nats/context/"
	variables := func(name string) []string {
		var context struct{ Password string }
		data, err := os.ReadFile(users + name + ".json")
		succeed(u.t, err)
		succeed(u.t, json.Unmarshal(data, &context))
		file := filepath.Join(u.t.TempDir(), name)
		succeed(u.t, os.WriteFile(file, []byte(context.Password), 0o600))
		return []string{"NATS_URL=nats://127.0.0.1:4222", "NATS_USER=" + name, "NATS_PASSWORD_FILE=" + file}
	}
	w := newWork(u, "single", variables("operator"), variables("finalizer"))
	w.kill(containers["coppice"])
	w.end()
}

// cluster sends cascades through the services of cluster.yaml, while a container of each kind is killed.
func cluster(u *user) {
	containers := containersOf(u, "cluster.yaml")
	confined(u, "cluster.yaml", containers)
	p := prometheus{u}
	p.quiet(7)
	w := clusterWork(u, "losses")
	for _, name := range []string{"nats-1", w.writer(containers), "processor-1", "finalizers-1", "scanner-1", "prometheus"} {
		w.kill(containers[name])
	}
	w.end()
	p.quiet(7)
	p.notices()
}

// clusterWork starts work in the cluster.
func clusterWork(u *user, work string) *work {
	u.t.Helper()
	variables := func(name string) []string {
		return []string{
			"NATS_URL=nats://127.0.0.1:4222,nats://127.0.0.1:4223,nats://127.0.0.1:4224", "NATS_USER=" + name,
			"NATS_PASSWORD_FILE=" + u.clone + "/installation/compose/secrets/passwords/" + name,
		}
	}
	return newWork(u, work, variables("operator"), variables("finalizer"))
}

// upgraded checks that the services run the new image, and the others the same one.
func upgraded(u *user) {
	containers := containersOf(u, "cluster.yaml")
	confined(u, "cluster.yaml", containers)
	var old []string
	for service, c := range containers {
		if image := u.engine.Podman(u.t, "inspect", "--format", "{{.ImageName}}", c.name); strings.HasSuffix(image, "coppice:0.1.0") {
			old = append(old, service)
		}
	}
	if len(old) > 0 {
		slices.Sort(old)
		u.t.Errorf("these services were not upgraded: %q", old)
	}
}
