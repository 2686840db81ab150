package jsonpaths_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/klog/v2"
	"k8s.io/kubectl/pkg/cmd/get"

	"github.com/coppice-gc/coppice/internal/jsonpath"
	"github.com/coppice-gc/coppice/internal/manifest"
)

// sortedTheirs returns the names of objects in kubectl's order for --sort-by: of a table of the API server, or
// of a list. kubectl ends the program for values that have no order.
func sortedTheirs(t *testing.T, path string, objects []string, table bool) (names []string, err error) {
	t.Helper()
	exit := klog.OsExit
	klog.OsExit = func(int) { panic("klog") }
	klog.SetLogger(logr.Discard())
	defer func() {
		klog.OsExit = exit
		if p := recover(); p != nil {
			names, err = nil, fmt.Errorf("panic: %v", p)
		}
	}()
	name := func(o *unstructured.Unstructured) { names = append(names, o.GetName()) }
	rows, list := &metav1.Table{}, &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
	for _, text := range objects {
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		rows.Rows = append(rows.Rows, metav1.TableRow{Object: runtime.RawExtension{Object: o}})
		list.Items = append(list.Items, *o)
	}
	p := &get.SortingPrinter{SortField: path, Delegate: printers.ResourcePrinterFunc(func(sorted runtime.Object, _ io.Writer) error {
		if of, ok := sorted.(*metav1.Table); ok {
			for _, r := range of.Rows {
				name(r.Object.Object.(*unstructured.Unstructured))
			}
			return nil
		}
		return sorted.(*unstructured.UnstructuredList).EachListItem(func(o runtime.Object) error {
			name(o.(*unstructured.Unstructured))
			return nil
		})
	})}
	if table {
		return names, p.PrintObj(rows, io.Discard)
	}
	err = p.PrintObj(list, io.Discard)
	return names, err
}

// sortedOurs returns the names of objects in Coppice's order, and their values at the path.
func sortedOurs(t *testing.T, path string, objects []string) (names []string, values map[string][]any, err error) {
	t.Helper()
	by, err := jsonpath.ParsePath(path)
	if err != nil {
		return nil, nil, err
	}
	values = map[string][]any{}
	for _, text := range objects {
		o, err := manifest.FromJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonpath.Document(o)
		if err != nil {
			t.Fatal(err)
		}
		name := o.GetMetadata().GetName()
		if values[name], err = by.Select(v); err != nil {
			return nil, nil, err
		}
		names = append(names, name)
	}
	err = jsonpath.Sort(names, func(name string) []any { return values[name] })
	return names, values, err
}

// sortable are kinds of values in JSON; "" is a field that is missing.
var sortable = map[string][]string{
	"integer":  {"0", "1", "-2", "10", "9007199254740992", "9007199254740993"},
	"number":   {"0.5", "-1.5", "3.25", "1e-9", "1e300"},
	"quantity": {`"1"`, `"10"`, `"9"`, `"100m"`, `"1Ki"`, `"1000"`, `"1k"`, `"1Mi"`, `"0"`, `"-5"`, `"+1"`, `"1e3"`, `"1E"`, `".5"`},
	"time":     {`"2026-01-01T00:00:00Z"`, `"2026-01-01T00:00:01Z"`, `"2025-12-31T23:59:59Z"`, `"2026-01-01T01:00:00+02:00"`},
	"string":   {`""`, `"a"`, `"b"`, `"B"`, `"9x"`, `"é"`, `" 1"`, `"0x1"`, `"NaN"`},
	"other":    {"true", "false", "{}", `{"x":1}`, "[]", "[1]"},
	"absent":   {"", "null"},
}

// sorting draws the values of the field spec.a of some objects: often of one kind, so that they have an order. Of kinds that have
// none among them, such as quantities and other strings, there are so few that both compare them in the same sequence.
func (r drawing) sorting() (values []string) {
	kinds := []string{r.of("integer", "number", "quantity", "time", "string", "other"), "absent"}
	most := 40
	if r.IntN(4) == 0 {
		most = 12
		kinds = append(kinds, r.of("integer", "number", "quantity", "time", "string", "other"))
	}
	for range 2 + r.IntN(most-1) {
		values = append(values, r.of(sortable[r.of(kinds...)]...))
	}
	return values
}

// Coppice sorts drawn values as kubectl does, or refuses them if kubectl does. Objects with equal values, or without one, can
// be in another order: kubectl does not keep that in which they were.
func TestSorted(t *testing.T) {
	r := drawing{rand.New(rand.NewPCG(3, 4))}
	ordered, refused := 0, 0
	for range 5_000 {
		values := r.sorting()
		var objects []string
		for i, v := range values {
			spec := "{}"
			if v != "" {
				spec = `{"a":` + v + `}`
			}
			objects = append(objects, fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"%d"},"spec":%s}`, i, spec))
		}
		path := r.of(".spec.a", "{.spec.a}", "spec.a", ".spec.a[0]", ".spec.b", ".spec.a.x", ".spec.*", ".spec.a[")
		got, keys, errOurs := sortedOurs(t, path, objects)
		for _, table := range []bool{true, false} {
			want, errTheirs := sortedTheirs(t, path, objects, table)
			switch {
			case errOurs == nil && errTheirs != nil && onlyNumbers(values): // docs/commands.md
			case (errOurs == nil) != (errTheirs == nil):
				t.Errorf("%s of %q: %v, in kubectl %v", path, values, errOurs, errTheirs)
			case errOurs != nil:
				refused++
			case !slices.EqualFunc(got, want, func(a, b string) bool { return a == b || same(keys[a], keys[b]) }):
				t.Errorf("%s of %q: %v, in kubectl %v", path, values, got, want)
			default:
				ordered++
			}
		}
	}
	if ordered < 1_000 || refused < 1_000 {
		t.Errorf("the drawn values say little: %d were sorted, %d refused", ordered, refused)
	}
}

// onlyNumbers reports whether all values are numbers, or absent.
func onlyNumbers(values []string) bool {
	return !slices.ContainsFunc(values, func(v string) bool {
		return v != "" && v != "null" && strings.Trim(v, "-+.e0123456789") != ""
	})
}

// same reports whether --sort-by does not order two objects with these values.
func same(a, b []any) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	order, err := jsonpath.Compare(a[0], b[0])
	return err == nil && order == 0
}
