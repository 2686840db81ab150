// Package apply_test gives the objects of the chart to an API server of Kubernetes, which
// validates them and checks them against the policy "restricted" of pod security.
package apply_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	scheduling "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/coppice-gc/coppice/test/kubernetes/chart"
	"github.com/coppice-gc/coppice/test/kubernetes/cluster"
)

const repository = "../../.."

// server is an API server whose namespace chart.Namespace enforces restricted pods.
type server struct{ *cluster.Server }

// TestServer starts one API server for all tests.
func TestServer(t *testing.T) {
	s := server{cluster.Start(t)}
	s.prepare(t)
	t.Run("Sets", s.testSets)
	t.Run("Plain", s.testPlain)
	t.Run("Refused", s.testRefused)
	t.Run("Upgrade", s.testUpgrade)
}

// prepare creates what the objects of a chart refer to.
func (s server) prepare(t *testing.T) {
	t.Helper()
	_, err := s.Client.CoreV1().Namespaces().Create(t.Context(), &core.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: chart.Namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The controllers that create the account "default" do not run.
	for _, name := range []string{"default", "coppice", "collector-pods"} {
		account := &core.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := s.Client.CoreV1().ServiceAccounts(chart.Namespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	class := &scheduling.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "collector"}, Value: 1000}
	if _, err := s.Client.SchedulingV1().PriorityClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// testSets applies the objects of each set of values with a dry run, and creates a Pod of
// each template: of a Deployment with other pods the API server only warns.
func (s server) testSets(t *testing.T) {
	sets, err := chart.Sets(repository)
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range sets {
		t.Run(set.Name, func(t *testing.T) {
			pods := 0
			for _, o := range rendered(t, set.Values) {
				pods += s.check(t, o)
			}
			if pods != 4 {
				t.Errorf("%d pods", pods)
			}
		})
	}
}

// testPlain applies deploy/kubernetes.
func (s server) testPlain(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "deploy", "kubernetes", "coppice.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	pods := 0
	for _, document := range strings.Split(string(text), "\n---\n") {
		pods += s.check(t, object(t, document))
	}
	if pods != 4 {
		t.Errorf("%d pods", pods)
	}
}

// check applies an object, and creates the Pod of its template if it has one. It returns
// the number of Pods.
func (s server) check(t *testing.T, o *unstructured.Unstructured) int {
	t.Helper()
	if strings.HasPrefix(o.GetAPIVersion(), "monitoring.coreos.com/") {
		return 0 // a custom resource: package chart decodes it
	}
	if err := s.Apply(t, o, metav1.DryRunAll); err != nil {
		t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
	pod, ok := podOf(t, o)
	if !ok {
		s.noWarnings(t, o)
		return 0
	}
	if err := s.Apply(t, pod, metav1.DryRunAll); err != nil {
		t.Errorf("pod of %s %s: %v", o.GetKind(), o.GetName(), err)
	}
	s.noWarnings(t, o)
	return 1
}

func (s server) noWarnings(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	for _, w := range s.Warnings.Take() {
		t.Errorf("%s %s: warning: %s", o.GetKind(), o.GetName(), w)
	}
}

// testRefused changes objects so that they are wrong: each must be refused, by the reason
// that the other tests rely on.
func (s server) testRefused(t *testing.T) {
	set := func(value any, path ...string) func(*unstructured.Unstructured) error {
		return func(o *unstructured.Unstructured) error { return unstructured.SetNestedField(o.Object, value, path...) }
	}
	wrong := []struct {
		name, kind, reason string
		pod                bool
		change             func(*unstructured.Unstructured) error
	}{
		{"an unknown field", "StatefulSet", `field not declared in schema`, false, set("x", "spec", "template", "spec", "unknown")},
		{"a selector that does not match", "Deployment", "selector", false, set("x", "spec", "selector", "matchLabels", "app.kubernetes.io/component")},
		{"a negative number of pods", "Deployment", "spec.replicas", false, set(int64(-1), "spec", "replicas")},
		{"a policy for another protocol", "NetworkPolicy", "protocol", false, set([]any{map[string]any{"ports": []any{map[string]any{"port": int64(53), "protocol": "ICMP"}}}}, "spec", "egress")},
		{"a pod as root", "StatefulSet", "runAsNonRoot", true, set(false, "spec", "template", "spec", "securityContext", "runAsNonRoot")},
		{"a pod with any system call", "Deployment", "seccompProfile", true, set(map[string]any{}, "spec", "template", "spec", "securityContext", "seccompProfile")},
		{"an account that does not exist", "Deployment", "serviceaccount", true, set("missing", "spec", "template", "spec", "serviceAccountName")},
	}
	for _, w := range wrong {
		t.Run(w.name, func(t *testing.T) {
			o := first(t, w.kind)
			if err := w.change(o); err != nil {
				t.Fatal(err)
			}
			if w.pod {
				o, _ = podOf(t, o)
			}
			if err := s.Apply(t, o, metav1.DryRunAll); err == nil || !strings.Contains(err.Error(), w.reason) {
				t.Errorf("%v, and not because of %s", err, w.reason)
			}
		})
	}
	s.Warnings.Take()

	t.Run("a warning", func(t *testing.T) {
		o := first(t, "Deployment")
		if err := unstructured.SetNestedField(o.Object, true, "spec", "template", "spec", "hostNetwork"); err != nil {
			t.Fatal(err)
		}
		if err := s.Apply(t, o, metav1.DryRunAll); err != nil {
			t.Fatal(err)
		}
		if texts := s.Warnings.Take(); len(texts) != 1 || !strings.Contains(texts[0], "restricted") {
			t.Errorf("warnings: %v", texts)
		}
	})
}

// testUpgrade applies the default values, and then a later version of the chart and the
// image with other values, over the same objects. Kubernetes refuses to change some fields.
func (s server) testUpgrade(t *testing.T) {
	for _, o := range rendered(t, nil) {
		if err := s.Apply(t, o); err != nil {
			t.Fatal(err)
		}
	}
	c, err := chart.Load(repository)
	if err != nil {
		t.Fatal(err)
	}
	c.Metadata.Version, c.Metadata.AppVersion = "99.0.0", "99.0.0"
	pods := map[string]any{"podLabels": map[string]any{"a": "b"}, "replicas": 5, "extraArgs": []any{"--pprof"}}
	later := map[string]any{
		"graph": pods, "processor": pods, "finalizers": pods, "scanner": pods, "streamReplicas": 1,
		"commonLabels": map[string]any{"team": "platform"}, "commonAnnotations": map[string]any{"a": "b"},
		"archive": map[string]any{"url": "s3://backup"}, "nats": map[string]any{"auth": map[string]any{"method": "creds"}},
	}
	files, err := chart.Render(c, later)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range chart.Manifests(files) {
		o := object(t, m)
		if err := s.Apply(t, o); err != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
		s.noWarnings(t, o)
	}
	graph, err := s.Client.AppsV1().StatefulSets(chart.Namespace).Get(t.Context(), "coppice-graph", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if *graph.Spec.Replicas != 5 || graph.Spec.Template.Spec.Containers[0].Image != "coppice:99.0.0" {
		t.Errorf("not upgraded: %+v", graph.Spec)
	}
	moved := first(t, "StatefulSet")
	if err := unstructured.SetNestedField(moved.Object, "elsewhere", "spec", "serviceName"); err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t, moved); !apierrors.IsInvalid(err) {
		t.Errorf("another serviceName: %v", err)
	}
}

// podOf returns the Pod that the controller of an object would create.
func podOf(t *testing.T, o *unstructured.Unstructured) (*unstructured.Unstructured, bool) {
	t.Helper()
	template, ok, err := unstructured.NestedMap(o.Object, "spec", "template")
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return nil, false
	}
	pod := &unstructured.Unstructured{Object: maps.Clone(template)}
	pod.SetAPIVersion(core.SchemeGroupVersion.String())
	pod.SetKind("Pod")
	pod.SetNamespace(o.GetNamespace())
	pod.SetName(o.GetName() + "-0")
	claims, _, _ := unstructured.NestedSlice(o.Object, "spec", "volumeClaimTemplates")
	volumes, _, _ := unstructured.NestedSlice(pod.Object, "spec", "volumes")
	for _, c := range claims {
		name, _, _ := unstructured.NestedString(c.(map[string]any), "metadata", "name")
		volumes = append(volumes, map[string]any{"name": name, "persistentVolumeClaim": map[string]any{"claimName": name + "-" + pod.GetName()}})
	}
	if len(volumes) > 0 {
		if err := unstructured.SetNestedSlice(pod.Object, volumes, "spec", "volumes"); err != nil {
			t.Fatal(err)
		}
	}
	return pod, true
}

// rendered returns the objects of the chart with values.
func rendered(t *testing.T, values map[string]any) []*unstructured.Unstructured {
	t.Helper()
	c, err := chart.Load(repository)
	if err != nil {
		t.Fatal(err)
	}
	files, err := chart.Render(c, values)
	if err != nil {
		t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	for _, m := range chart.Manifests(files) {
		all = append(all, object(t, m))
	}
	return all
}

// first returns the first object of a kind.
func first(t *testing.T, kind string) *unstructured.Unstructured {
	t.Helper()
	all := rendered(t, nil)
	i := slices.IndexFunc(all, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind })
	if i < 0 {
		t.Fatalf("no %s", kind)
	}
	return all[i]
}

// object reads a manifest.
func object(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	text, err := yaml.YAMLToJSONStrict([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(text); err != nil {
		t.Fatalf("%v\n%s", err, manifest)
	}
	return o
}
