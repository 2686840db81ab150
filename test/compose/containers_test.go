package compose_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
)

// A container of a service.
type container struct {
	u             *user
	service, name string
}

// containersOf returns the containers that podman-compose has made of a file, by service.
func containersOf(u *user, file string) map[string]container {
	u.t.Helper()
	all := map[string]container{}
	list := u.engine.Podman(u.t, "ps", "--all", "--format", `{{index .Labels "com.docker.compose.service"}} {{.Names}}`)
	for line := range strings.Lines(list) {
		service, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[service] = container{u, service, name}
	}
	if want := len(services[file]); len(all) != want {
		u.t.Fatalf("%s has %d services, and there are containers of %d:\n%s", file, want, len(all), list)
	}
	return all
}

// state is what podman knows of a container.
type state struct {
	State struct {
		Status string
		Pid    int
		Health struct{ Status string }
	}
	RestartCount  int
	EffectiveCaps []string
	Config        struct {
		Healthcheck struct{ Test []string }
		User        string
	}
	HostConfig struct {
		ReadonlyRootfs bool
		Memory         int64
		RestartPolicy  struct{ Name string }
		PortBindings   map[string][]struct{ HostIP, HostPort string } // HostIp
	}
}

func (c container) inspect() state {
	c.u.t.Helper()
	var all []state
	if err := json.Unmarshal([]byte(c.u.engine.Podman(c.u.t, "inspect", c.name)), &all); err != nil || len(all) != 1 {
		c.u.t.Fatalf("podman inspect %s: %v", c.name, err)
	}
	return all[0]
}

// healthy reports whether the container runs and its health check passes.
func (c container) healthy() (string, bool) {
	_, err := c.u.engine.Try("", "healthcheck", "run", c.name)
	s := c.inspect()
	return fmt.Sprintf("%s is %s and %s after %d restarts (%v)", c.name, s.State.Status, s.State.Health.Status, s.RestartCount, err),
		err == nil && s.State.Status == "running" && s.State.Health.Status == "healthy"
}

// confined checks each container of a file: that it is as the file says, and that the kernel knows it too.
func confined(u *user, file string, containers map[string]container) {
	u.t.Helper()
	project := load(u.t, nil, file)
	for name, c := range containers {
		u.waitFor(name+" to be healthy", c.healthy)
		s, want := c.inspect(), project.Services[name]
		switch {
		case !s.HostConfig.ReadonlyRootfs:
			u.t.Errorf("%s may write to its root file system", name)
		case len(s.EffectiveCaps) > 0:
			u.t.Errorf("%s has the capabilities %q", name, s.EffectiveCaps)
		case s.HostConfig.RestartPolicy.Name != want.Restart:
			u.t.Errorf("%s has the restart policy %q", name, s.HostConfig.RestartPolicy.Name)
		case s.HostConfig.Memory != int64(want.MemLimit):
			u.t.Errorf("%s has %d bytes of memory, want %d", name, s.HostConfig.Memory, want.MemLimit)
		case len(s.Config.Healthcheck.Test) == 0:
			u.t.Errorf("%s has no health check", name)
		}
		for port, bindings := range s.HostConfig.PortBindings {
			for _, b := range bindings {
				if b.HostIP != "127.0.0.1" {
					u.t.Errorf("%s publishes %s at %q", name, port, b.HostIP)
				}
			}
		}
		u.engine.Confined(u.t, c.name)
		c.limited(want.MemLimit)
	}
}

// limited checks that the control group of the process has the memory limit, of version 1 or 2.
func (c container) limited(want types.UnitBytes) {
	c.u.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", c.inspect().State.Pid))
	succeed(c.u.t, err)
	file := ""
	if m := regexp.MustCompile(`(?m)^\d+:memory:(.*)$`).FindSubmatch(data); m != nil {
		file = "/sys/fs/cgroup/memory" + string(m[1]) + "/memory.limit_in_bytes"
	} else if m := regexp.MustCompile(`(?m)^0::(.*)$`).FindSubmatch(data); m != nil {
		file = "/sys/fs/cgroup" + string(m[1]) + "/memory.max"
	}
	limit, err := os.ReadFile(file)
	if got := strings.TrimSpace(string(limit)); err != nil || got != strconv.FormatInt(int64(want), 10) {
		c.u.t.Errorf("the kernel gives %s %s bytes of memory, want %d (%v)", c.service, got, want, err)
	}
}
