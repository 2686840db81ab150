package chart_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/test/kubernetes/chart"
)

// defaults returns values.yaml.
func defaults(t *testing.T) map[string]any {
	t.Helper()
	v, err := chart.ReadValues(filepath.Join(chart.Dir(repository), "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// leaf reports whether a value has no values of its own: the chart passes on what is in it.
func leaf(name string, value any) bool {
	m, ok := value.(map[string]any)
	return !ok || len(m) == 0 || name == "resources"
}

// walk calls f with the path of every value: those with values of their own too.
func walk(values map[string]any, f func(path []string, leaf bool), under ...string) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		path := append(slices.Clone(under), name)
		f(path, leaf(name, values[name]))
		if !leaf(name, values[name]) {
			walk(values[name].(map[string]any), f, path...)
		}
	}
}

// at returns the value of a path.
func at(values map[string]any, path []string) (any, bool) {
	var v any = values
	for _, name := range path {
		m, _ := v.(map[string]any)
		var ok bool
		if v, ok = m[name]; !ok {
			return nil, false
		}
	}
	return v, true
}

// with returns values with another value at a path; without one if it is nil.
func with(values map[string]any, path []string, value any) map[string]any {
	values = maps.Clone(values)
	if len(path) > 1 {
		inner, _ := values[path[0]].(map[string]any)
		if inner == nil {
			inner = map[string]any{}
		}
		values[path[0]] = with(inner, path[1:], value)
		return values
	}
	if values[path[0]] = value; value == nil {
		delete(values, path[0])
	}
	return values
}

// TestValuesAreUsed takes every value of values.yaml back to its default in a set that
// changes it, or changes it alone: the manifests must differ.
func TestValuesAreUsed(t *testing.T) {
	sets, err := chart.Sets(repository)
	if err != nil {
		t.Fatal(err)
	}
	manifests := func(values map[string]any) []string { return chart.Manifests(render(t, values)) }
	original, plain, leaves := defaults(t), manifests(nil), 0
	walk(original, func(path []string, leaf bool) {
		if !leaf {
			return
		}
		leaves++
		was, _ := at(original, path)
		changed := false
		for _, set := range sets {
			is, ok := at(set.Values, path)
			if !ok || reflect.DeepEqual(is, was) {
				continue
			}
			changed = true
			if !slices.Equal(manifests(with(set.Values, path, nil)), manifests(set.Values)) ||
				!slices.Equal(manifests(with(map[string]any{}, path, is)), plain) {
				return
			}
		}
		if !changed {
			t.Errorf("no set of testdata changes %s", strings.Join(path, "."))
		} else {
			t.Errorf("no template uses %s", strings.Join(path, "."))
		}
	})
	if leaves < 100 {
		t.Errorf("only %d values", leaves)
	}
}

// TestMisspelled adds a value with a wrong name at every place that has names: the error
// has the name.
func TestMisspelled(t *testing.T) {
	c, err := chart.Load(repository)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(path []string) {
		if _, err := chart.Render(c, with(map[string]any{}, path, "x")); err == nil || !strings.Contains(err.Error(), path[len(path)-1]) {
			t.Errorf("%s: %v", strings.Join(path, "."), err)
		}
	}
	refused([]string{"misspelled"})
	walk(defaults(t), func(path []string, leaf bool) {
		if !leaf {
			refused(append(slices.Clone(path), "misspelled"))
		}
	})
}

// TestWrongValues are refused, with the path of the value.
func TestWrongValues(t *testing.T) {
	c, err := chart.Load(repository)
	if err != nil {
		t.Fatal(err)
	}
	for path, value := range map[string]any{
		"graph.replicas": "two", "graph.lease": "5", "graph.storage.size": "big", "graph.terminationGracePeriodSeconds": 5, "graph.storage.accessModes": []any{"ReadWriteMany"},
		"nats.url": "nats://graph:password@nats:4222", "nats.auth.method": "token", "nats.auth.keys.answers": "", "streamReplicas": 6,
		"realms": []any{"Default"}, "archive.url": "https://example.com", "log.level": "trace", "image.repository": "", "image.digest": "sha256:0",
		"processor.concurrency": 0, "scanner.extraEnv": []any{map[string]any{"value": "x"}}, "installationSecret.name": "",
	} {
		_, err := chart.Render(c, with(map[string]any{}, strings.Split(path, "."), value))
		if where := "/" + strings.ReplaceAll(path, ".", "/"); err == nil || !strings.Contains(err.Error(), where) {
			t.Errorf("%s: %v: %v", path, value, err)
		}
	}
}

// TestSchema compares the names of values.schema.json with those of values.yaml.
func TestSchema(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(chart.Dir(repository), "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	var compare func(under string, schema map[string]any, values map[string]any)
	compare = func(under string, s map[string]any, values map[string]any) {
		if ref, ok := s["$ref"].(string); ok {
			d, _ := at(schema, []string{"$defs", strings.TrimPrefix(ref, "#/$defs/")})
			s = d.(map[string]any)
		}
		names, _ := s["properties"].(map[string]any)
		if s["additionalProperties"] != false {
			t.Errorf("%s: other names are not refused", under)
		}
		for name := range names {
			if _, ok := values[name]; !ok && under+name != "global" { // which Helm adds
				t.Errorf("values.yaml does not have %s%s", under, name)
			}
		}
		for name, v := range values {
			of, ok := names[name].(map[string]any)
			if !ok {
				t.Errorf("values.schema.json does not have %s%s", under, name)
			} else if !leaf(name, v) {
				compare(under+name+".", of, v.(map[string]any))
			}
		}
	}
	compare("", schema, defaults(t))
}
