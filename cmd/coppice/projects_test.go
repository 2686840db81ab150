package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"go.yaml.in/yaml/v3"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/worker"
	"github.com/coppice-gc/coppice/services/allinone"
)

// project is a directory of testdata/projects. Its manifests have the structure of those of a public project, and none
// of their text. testdata/projects/kinds.yaml has the kinds of Kubernetes that all of them need.
type project struct {
	name      string
	namespace string // of all objects, which name none
	exported  string // the file with an object whose uid others have in their owner references
}

var projects = []project{
	{name: "monitoring"},                           // as kube-prometheus
	{name: "deployer", namespace: "deployer"},      // as Argo CD
	{name: "lifecycle"},                            // as OLM
	{name: "storage"},                              // as Rook
	{name: "certificates"},                         // as cert-manager
	{name: "clusters", exported: "1-cluster.yaml"}, // as Cluster API
}

// The manifests of projects are applied, and then nothing is left to apply. The objects are those of the files,
// and an export of them changes nothing. They are deleted in the order of the files, and in another realm in the reverse
// order, until nothing is left of them.
func TestProjects(t *testing.T) {
	t.Parallel()
	stack := startStack(t, allinone.Config{Realms: []string{"forwards", "backwards"}})
	for realm, sorted := range map[string]func([]string){"forwards": func([]string) {}, "backwards": slices.Reverse[[]string]} {
		t.Run(realm, func(t *testing.T) {
			t.Parallel()
			r := newProjectRealm(t, stack.Server().URL(), realm)
			before := r.stored()
			r.run("apply", "-f", "kinds.yaml")
			for _, p := range projects {
				r.apply(p)
			}
			r.applyExport()
			for _, p := range projects {
				files := p.files(t)
				sorted(files)
				r.delete(p, files)
			}
			r.run("delete", "-f", "kinds.yaml")
			r.run("wait", "--idle")
			if after := r.stored(); after != before {
				t.Errorf("a realm with\n%shas after the deletions\n%s", before, after)
			}
		})
	}
}

// files returns the files of a project in the order of their names.
func (p project) files(t *testing.T) (files []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join("testdata/projects", p.name))
	must.Succeed(t, err)
	for _, e := range entries {
		files = append(files, p.name+"/"+e.Name())
	}
	return files
}

// flags are those of a command that reads files of a project.
func (p project) flags(files ...string) []string {
	flags := []string{"-f", strings.Join(files, ",")}
	if p.namespace != "" {
		flags = append(flags, "-n", p.namespace)
	}
	return flags
}

// objects reads the objects of a project.
func (p project) objects(t *testing.T) (list []map[string]any) {
	t.Helper()
	for _, file := range p.files(t) {
		text, err := os.ReadFile("testdata/projects/" + file)
		must.Succeed(t, err)
		var decoder interface{ Decode(any) error } = yaml.NewDecoder(bytes.NewReader(text))
		if filepath.Ext(file) == ".json" { // which may have escapes that YAML does not know
			decoder = json.NewDecoder(bytes.NewReader(text))
		}
		for {
			var o map[string]any
			if err := decoder.Decode(&o); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			items, isList := o["items"].([]any)
			for _, item := range items {
				list = append(list, item.(map[string]any))
			}
			if o != nil && !isList {
				list = append(list, o)
			}
		}
	}
	return list
}

func metadataOf(o map[string]any) map[string]any {
	m, _ := o["metadata"].(map[string]any)
	return m
}

// targetOf names an object with its version, as Pod.v1/web or Deployment.v1.apps/web, and its namespace.
func targetOf(o map[string]any, namespace string) []string {
	group, version, ok := strings.Cut(fmt.Sprint(o["apiVersion"]), "/")
	if !ok {
		group, version = "", group
	}
	named, _ := metadataOf(o)["namespace"].(string)
	kind := strings.TrimSuffix(fmt.Sprintf("%s.%s.%s", o["kind"], version, group), ".")
	return []string{kind, fmt.Sprint(metadataOf(o)["name"]), "-n", cmp.Or(named, namespace, "default")}
}

// textOf returns the JSON of what a client sets in an object.
func textOf(t *testing.T, o map[string]any) string {
	t.Helper()
	raw, err := json.Marshal(o)
	must.Succeed(t, err)
	var decoded map[string]any // has the same types whatever file it is from
	must.Succeed(t, json.Unmarshal(raw, &decoded))
	delete(decoded, "status")
	m := metadataOf(decoded)
	for _, server := range []string{"namespace", "uid", "resourceVersion", "generation", "creationTimestamp"} {
		delete(m, server)
	}
	dropNulls(decoded)
	for name, value := range m {
		if empty, ok := value.(map[string]any); ok && len(empty) == 0 {
			delete(m, name)
		}
	}
	raw, err = json.MarshalIndent(decoded, "", " ")
	must.Succeed(t, err)
	return string(raw)
}

// dropNulls removes the members that are null: apply does not set them.
func dropNulls(value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			if member == nil {
				delete(value, name)
			}
			dropNulls(member)
		}
	case []any:
		for _, item := range value {
			dropNulls(item)
		}
	}
}

// projectRealm runs commands in a realm, and the programs of finalizers.
type projectRealm struct {
	t      *testing.T
	dir    string
	env    []string
	worker *worker.Worker
}

func newProjectRealm(t *testing.T, url, realm string) *projectRealm {
	t.Helper()
	nc, err := nats.Connect(url, nats.Timeout(testkit.Timeout))
	must.Succeed(t, err)
	t.Cleanup(nc.Close)
	c := client.New(nc, client.WithRealm(realm), client.WithActor("controller"))
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	for _, finalizer := range finalizersOfProjects(t) {
		running.Go(func() {
			err := c.RunFinalizer(t.Context(), finalizer, func(context.Context, *client.Call) error { return nil })
			if t.Context().Err() == nil {
				t.Error(err)
			}
		})
	}
	dir, err := filepath.Abs("testdata/projects")
	must.Succeed(t, err)
	r := &projectRealm{t: t, dir: dir, env: []string{"NATS_URL=" + url, "NATS_TIMEOUT=" + testkit.Timeout.String(), "COPPICE_REALM=" + realm, "COPPICE_ACTOR=ana", "HOME=" + t.TempDir()}}
	r.worker = startWorker(t, r.env)
	return r
}

// finalizersOfProjects returns the finalizers that objects of projects have.
func finalizersOfProjects(t *testing.T) (names []string) {
	t.Helper()
	for _, p := range projects {
		for _, o := range p.objects(t) {
			list, _ := metadataOf(o)["finalizers"].([]any)
			for _, name := range list {
				names = append(names, name.(string))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// run runs a command in testdata/projects that must succeed, and returns its output.
func (r *projectRealm) run(args ...string) string {
	r.t.Helper()
	o, err := r.worker.Do(worker.Command{Dir: r.dir, Env: r.env, Args: args})
	must.Succeed(r.t, err)
	if o.Code != 0 {
		r.t.Fatalf("coppice %s: exit code %d\n%s%s", strings.Join(args, " "), o.Code, o.Stdout, o.Stderr)
	}
	return string(o.Stdout)
}

// stored returns the names of all kinds of the realm, and of all objects but those of coppice.dev.
func (r *projectRealm) stored() string {
	r.t.Helper()
	return r.run("get", "kinds", "-o", "name") + r.run("get", r.types(), "-A", "-o", "name")
}

// applyAgain checks that an apply would change nothing and changes nothing, and returns the number of its objects.
func (r *projectRealm) applyAgain(manifests ...string) int {
	r.t.Helper()
	if diff := r.run(append([]string{"diff"}, manifests...)...); diff != "" {
		r.t.Errorf("diff %s prints\n%s", strings.Join(manifests, " "), diff)
	}
	again := r.run(append([]string{"apply"}, manifests...)...)
	n := strings.Count(again, " unchanged\n")
	if n != strings.Count(again, "\n") {
		r.t.Errorf("apply %s again prints\n%s", strings.Join(manifests, " "), again)
	}
	return n
}

// applyExport applies what get prints of all objects but those of coppice.dev.
func (r *projectRealm) applyExport() {
	r.t.Helper()
	objects := r.run("get", r.types(), "-A", "-o", "name")
	file := filepath.Join(r.t.TempDir(), "export.yaml")
	must.Succeed(r.t, os.WriteFile(file, []byte(r.run("get", r.types(), "-A", "-o", "yaml")), 0o600))
	if n := r.applyAgain("-f", file); n == 0 || n != strings.Count(objects, "\n") {
		r.t.Errorf("an export has %d objects, and get prints\n%s", n, objects)
	}
}

// types returns all types but those of coppice.dev, separated by commas.
func (r *projectRealm) types() string {
	r.t.Helper()
	var types []string
	for line := range strings.Lines(r.run("get", "kinds", "-o", "name")) {
		if t := strings.TrimPrefix(strings.TrimSpace(line), "kinds.coppice.dev/"); !strings.HasSuffix(t, ".coppice.dev") {
			types = append(types, t)
		}
	}
	return strings.Join(types, ",")
}

// apply applies the manifests of a project, and compares the objects with them.
func (r *projectRealm) apply(p project) {
	r.t.Helper()
	manifests := p.flags(p.name)
	objects := p.objects(r.t)
	r.run(append([]string{"apply", "--dry-run=client"}, manifests...)...)
	if p.exported != "" {
		r.run("apply", "-f", p.name+"/0-kinds.yaml")
		r.run("import", "-f", p.name+"/"+p.exported)
	}
	r.run(append([]string{"apply"}, manifests...)...)
	if again := r.applyAgain(manifests...); again != len(objects) {
		r.t.Errorf("%s: the second apply is of %d objects, not %d", p.name, again, len(objects))
	}
	for _, o := range objects {
		target := targetOf(o, p.namespace)
		var is map[string]any
		must.Succeed(r.t, json.Unmarshal([]byte(r.run(append([]string{"get", "-o", "json"}, target...)...)), &is))
		if want, got := textOf(r.t, o), textOf(r.t, is); got != want {
			r.t.Errorf("%s: the file has\n%s\nget %s prints\n%s", p.name, want, strings.Join(target, " "), got)
		}
	}
}

// delete plans the deletion of the manifests of a project, which finds all objects, and deletes them twice.
func (r *projectRealm) delete(p project, files []string) {
	r.t.Helper()
	manifests := p.flags(files...)
	planned := r.run(append([]string{"delete", "--dry-run=cascade"}, manifests...)...)
	if want := fmt.Sprintf("\n%d objects removed, ", len(p.objects(r.t))); !strings.Contains(planned, want) {
		r.t.Errorf("%s: the plan lacks %q:\n%s", p.name, want, planned)
	}
	manifests = append(manifests, "--ignore-not-found")
	r.run(append([]string{"delete"}, manifests...)...)
	r.run("wait", "--idle")
	if again := r.run(append([]string{"delete"}, manifests...)...); again != "" {
		r.t.Errorf("%s: the second deletion prints\n%s", p.name, again)
	}
}
