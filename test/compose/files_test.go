package compose_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// directory has the files of Compose.
const directory = root + "/deploy/compose"

// load loads files as Docker Compose does: it checks them against the schema of the specification, merges them, and
// replaces variables. env are variables of the user, such as COPPICE_IMAGE=a.
func load(t *testing.T, env []string, files ...string) *types.Project {
	t.Helper()
	paths := make([]string, len(files))
	for i, f := range files {
		paths[i] = filepath.Join(directory, f)
	}
	options, err := cli.NewProjectOptions(paths, cli.WithEnv(env), cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		t.Fatalf("load %v: %v", files, err)
	}
	return project
}

// The services of each file, and the kinds of their images.
var services = map[string]map[string]string{
	"single.yaml": {"coppice": "COPPICE_IMAGE"},
	"cluster.yaml": {
		"nats-1": "NATS_IMAGE", "nats-2": "NATS_IMAGE", "nats-3": "NATS_IMAGE", "graph-1": "COPPICE_IMAGE", "graph-2": "COPPICE_IMAGE",
		"processor-1": "COPPICE_IMAGE", "processor-2": "COPPICE_IMAGE", "finalizers-1": "COPPICE_IMAGE", "finalizers-2": "COPPICE_IMAGE",
		"scanner-1": "COPPICE_IMAGE", "prometheus": "PROMETHEUS_IMAGE",
	},
	"grafana.yaml": {"grafana": "GRAFANA_IMAGE"},
}

// Each service of the files is confined, is restarted, has limits, and a health check of its own or that of Coppice's
// image. Its image has a default, and a variable. Ports are published on the loopback interface only, and secrets are
// files of the directory secrets.
func TestFiles(t *testing.T) {
	images := []string{"COPPICE_IMAGE=registry.example.com/c:1", "NATS_IMAGE=registry.example.com/n:1",
		"PROMETHEUS_IMAGE=registry.example.com/p:1", "GRAFANA_IMAGE=registry.example.com/g:1"}
	for file, want := range services {
		project, named := load(t, nil, file), load(t, images, file)
		if got := slices.Sorted(maps.Keys(project.Services)); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
			t.Errorf("%s has the services %q", file, got)
		}
		for name, s := range project.Services {
			if image := named.Services[name].Image; !slices.Contains(images, want[name]+"="+image) {
				t.Errorf("%s: with %s, the image of %s is %s", file, want[name], name, image)
			}
			for _, wrong := range unsafe(s, want[name] == "COPPICE_IMAGE") {
				t.Errorf("%s: %s %s", file, name, wrong)
			}
			for _, used := range s.Secrets {
				if _, declared := project.Secrets[used.Source]; !declared {
					t.Errorf("%s: %s uses the secret %s, which is not declared", file, name, used.Source)
				}
			}
		}
		for name, secret := range project.Secrets {
			if dir, err := filepath.Abs(filepath.Join(directory, "secrets")); err != nil || !strings.HasPrefix(secret.File, dir+"/") {
				t.Errorf("%s: the secret %s is the file %s (%v)", file, name, secret.File, err)
			}
		}
	}
	if both := load(t, nil, "cluster.yaml", "grafana.yaml"); len(both.Services) != len(services["cluster.yaml"])+1 {
		t.Errorf("with Grafana there are %d services", len(both.Services))
	}
}

// unsafe returns what is wrong with a service.
func unsafe(s types.ServiceConfig, checked bool) (list []string) {
	wrong := func(is bool, what string) {
		if is {
			list = append(list, what)
		}
	}
	_, limit := s.Environment["GOMEMLIMIT"]
	wrong(s.Image == "" || !strings.Contains(s.Image, ":") || strings.HasSuffix(s.Image, ":latest"), "has an image without a version: "+s.Image)
	wrong(!s.ReadOnly, "has a root file system that is not read-only")
	wrong(!slices.Equal(s.CapDrop, []string{"ALL"}) || len(s.CapAdd) > 0 || s.Privileged, "has capabilities")
	wrong(!slices.Equal(s.SecurityOpt, []string{"no-new-privileges"}), "may gain privileges")
	wrong(!checked && s.User != "65532:65532", "runs as "+s.User) // the image of Coppice says the user
	wrong(s.Restart != "always", "is not restarted")
	wrong(s.MemLimit < 64<<20, "has no memory limit")
	wrong(!limit && s.Name != "grafana", "has no GOMEMLIMIT")
	wrong(s.StopGracePeriod == nil || *s.StopGracePeriod == 0, "has no stop grace period")
	wrong(s.Logging == nil || s.Logging.Options["max-size"] == "", "has logs without a limit")
	// podman-compose runs each check of a file by a shell, which the image of Coppice does not have.
	wrong(checked && s.HealthCheck != nil, "replaces the health check of the image")
	wrong(!checked && (s.HealthCheck == nil || s.HealthCheck.Disable || len(s.HealthCheck.Test) == 0), "has no health check")
	wrong(len(s.DependsOn) > 0, "depends on another") // each waits for what it needs
	for _, p := range s.Ports {
		wrong(p.HostIP != "127.0.0.1", "publishes a port to a network: "+p.Published)
	}
	for _, v := range s.Volumes {
		if v.Type == types.VolumeTypeBind && !strings.HasPrefix(v.Source, filepath.Join(abs(directory), "data")+"/") {
			_, err := os.Stat(v.Source)
			wrong(err != nil || !v.ReadOnly, "mounts a file that is not there, or may change it: "+v.Source)
		}
	}
	return list
}

func abs(path string) string {
	full, err := filepath.Abs(path)
	if err != nil {
		panic(err)
	}
	return full
}

// A service that is not confined is noticed.
func TestFilesNotices(t *testing.T) {
	s := types.ServiceConfig{Name: "a"}
	s.Ports = []types.ServicePortConfig{{Published: "80"}}
	s.Volumes = []types.ServiceVolumeConfig{{Type: types.VolumeTypeBind, Source: "/etc"}}
	if got := unsafe(s, false); len(got) != 13 {
		t.Errorf("of a service without anything %d are noticed: %q", len(got), got)
	}
}

// A file that Docker Compose refuses is refused here.
func TestLoadNotices(t *testing.T) {
	file := filepath.Join(t.TempDir(), "compose.yaml")
	text, err := os.ReadFile(filepath.Join(directory, "single.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), "read_only:", "readonly:", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	options, err := cli.NewProjectOptions([]string{file})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := options.LoadProject(context.Background()); err == nil || !strings.Contains(err.Error(), "readonly") {
		t.Errorf("a field that does not exist is loaded: %v", err)
	}
}
