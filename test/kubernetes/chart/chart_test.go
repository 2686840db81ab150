package chart_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/coppice-gc/coppice/test/kubernetes/chart"
)

const repository = "../../.."

// render renders the chart with values.
func render(t *testing.T, values map[string]any) map[string]string {
	t.Helper()
	c, err := chart.Load(repository)
	if err != nil {
		t.Fatal(err)
	}
	files, err := chart.Render(c, values)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// decode decodes a manifest by the Go types of its kind. It refuses unknown and repeated
// fields.
func decode(t *testing.T, manifest string) runtime.Object {
	t.Helper()
	o, err := strictly(manifest)
	if err != nil {
		t.Fatalf("%v\n%s", err, manifest)
	}
	return o
}

func strictly(manifest string) (runtime.Object, error) {
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, monitoring.AddToScheme} {
		if err := add(kinds); err != nil {
			return nil, err
		}
	}
	s := json.NewSerializerWithOptions(json.DefaultMetaFactory, kinds, kinds, json.SerializerOptions{Yaml: true, Strict: true})
	o, _, err := s.Decode([]byte(manifest), nil, nil)
	return o, err
}

// objects decodes the objects of a set of values.
func objects(t *testing.T, set chart.Set) []runtime.Object {
	t.Helper()
	var all []runtime.Object
	for _, m := range chart.Manifests(render(t, set.Values)) {
		all = append(all, decode(t, m))
	}
	return all
}

// each runs a test with each set of values.
func each(t *testing.T, test func(*testing.T, chart.Set)) {
	t.Helper()
	sets, err := chart.Sets(repository)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sets {
		t.Run(s.Name, func(t *testing.T) { test(t, s) })
	}
}

// TestLint lints the chart with each set of values.
func TestLint(t *testing.T) {
	each(t, func(t *testing.T, set chart.Set) {
		for _, m := range lint.RunAll(chart.Dir(repository), set.Values, chart.Namespace).Messages {
			if m.Severity > support.InfoSev {
				t.Error(m)
			}
		}
	})
}

// TestLintFails lints a chart with a name that Kubernetes refuses.
func TestLintFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "coppice")
	if err := os.CopyFS(dir, os.DirFS(chart.Dir(repository))); err != nil {
		t.Fatal(err)
	}
	wrong := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Wrong_Name}\n"
	if err := os.WriteFile(filepath.Join(dir, "templates", "wrong.yaml"), []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	if l := lint.RunAll(dir, nil, chart.Namespace); l.HighestSeverity <= support.InfoSev {
		t.Fatalf("a wrong name passes: %v", l.Messages)
	}
}

// TestFields decodes every object by its Go types, those of the operator of Prometheus among
// them, without unknown fields.
func TestFields(t *testing.T) {
	each(t, func(t *testing.T, set chart.Set) {
		kinds := map[string]int{}
		for _, o := range objects(t, set) {
			kinds[o.GetObjectKind().GroupVersionKind().Kind]++
		}
		if kinds["StatefulSet"] != 1 || kinds["Deployment"] != 3 || kinds["Service"] != 4 {
			t.Errorf("objects: %v", kinds)
		}
		if on := kinds["ServiceMonitor"] == 1 && kinds["PrometheusRule"] == 1; on != (set.Name == "everything" || set.Name == "monitoring") {
			t.Errorf("objects: %v", kinds)
		}
	})
	for _, wrong := range []string{
		"apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {selectors: {a: b}}\n",
		"apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata: {name: a}\nspec: {endpoint: []}\n",
		"apiVersion: v1\nkind: Service\nmetadata: {name: a, name: b}\n",
	} {
		if _, err := strictly(wrong); err == nil {
			t.Errorf("accepted:\n%s", wrong)
		}
	}
}

// TestPlain compares deploy/kubernetes with the chart.
func TestPlain(t *testing.T) {
	want, err := chart.Plain(repository)
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(filepath.Join(repository, "deploy", "kubernetes", "coppice.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Error("deploy/kubernetes/coppice.yaml is not the chart with its default values: run 'go run -C test/kubernetes ./render'")
	}
	for _, m := range strings.Split(string(have), "\n---\n") {
		decode(t, m)
	}
}
