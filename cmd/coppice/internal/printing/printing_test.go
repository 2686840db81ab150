package printing_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/jsonpath"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func pod(name string, set func(*coppicev1.ObjectMeta)) *coppicev1.Object {
	o := &coppicev1.Object{ApiVersion: "v1", Kind: "Pod", Metadata: &coppicev1.ObjectMeta{
		Name: name, Namespace: "shop", Uid: "uid-" + name, CreationTimestamp: timestamppb.New(noon.Add(-time.Minute)),
	}}
	if set != nil {
		set(o.Metadata)
	}
	return o
}

func controlled(m *coppicev1.ObjectMeta) {
	yes := true
	m.OwnerReferences = []*coppicev1.OwnerReference{{Kind: "A", Name: "a"}, {Kind: "B", Name: "b", Controller: &yes}}
}

func owned(m *coppicev1.ObjectMeta) {
	m.OwnerReferences = []*coppicev1.OwnerReference{{Kind: "A", Name: "a"}}
}
func labelled(m *coppicev1.ObjectMeta) { m.Labels = map[string]string{"b": "2", "a": "1"} }
func terminating(m *coppicev1.ObjectMeta) {
	m.DeletionTimestamp, m.Finalizers = timestamppb.New(noon), []string{"x/y"}
}

// printed is what a printer writes for some pods.
func printed(t *testing.T, b *strings.Builder, p printing.Printer, objects ...*coppicev1.Object) string {
	t.Helper()
	for _, o := range objects {
		must.Succeed(t, p.Object(client.Kind{Kind: "Pod", Plural: "pods", Singular: "pod"}, o))
	}
	must.Succeed(t, p.End())
	return b.String()
}

func TestTable(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		set  func(*printing.TablePrinter)
		want string
	}{
		"plain": {func(*printing.TablePrinter) {}, `
NAME   STATUS              OWNERS   AGE
a      Active              B/b +1   60s
b      Terminating (x/y)   <none>   60s
`},
		"without headers, qualified, with namespace and labels": {func(p *printing.TablePrinter) {
			p.Headers, p.Qualified, p.Namespace, p.Labels = false, true, true, true
		}, `
shop   pods/a   Active              B/b +1   60s   <none>
shop   pods/b   Terminating (x/y)   <none>   60s   <none>
`},
		"wide": {func(p *printing.TablePrinter) { p.Wide = true }, `
NAME   STATUS              OWNERS   AGE   UID     FINALIZERS   REVISION
a      Active              B/b +1   60s   uid-a   <none>       0
b      Terminating (x/y)   <none>   60s   uid-b   x/y          0
`},
	} {
		var b strings.Builder
		p := &printing.TablePrinter{
			Table: terminal.Table{W: &b}, Headers: true, Now: func() time.Time { return noon },
			OwnerKey: func(r *coppicev1.OwnerReference) string { return r.GetKind() + "/" + r.GetName() },
		}
		tc.set(p)
		if got := printed(t, &b, p, pod("a", controlled), pod("b", terminating)); got != tc.want[1:] {
			t.Errorf("%s:\n%s\nwant%s", name, got, tc.want)
		}
	}
}

func TestTemplatesAndColumns(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	template, err := jsonpath.Parse("{.items[*].metadata.name}", false)
	must.Succeed(t, err)
	list := &printing.TemplatePrinter{W: &b, Template: template, List: true}
	by, err := jsonpath.ParsePath(".metadata.labels.a")
	must.Succeed(t, err)
	sorted := &printing.SortedPrinter{Printer: list, By: by}
	if got := printed(t, &b, sorted, pod("b", labelled), pod("a", owned)); got != "a b" {
		t.Errorf("%q, want the object without a label first", got)
	}
	b.Reset()
	columns, err := jsonpath.ParseColumns("N:.metadata.name,OWNER:.metadata.ownerReferences[*].name")
	must.Succeed(t, err)
	p := &printing.ColumnsPrinter{Table: terminal.Table{W: &b}, Columns: columns, Headers: true}
	if got, want := printed(t, &b, p, pod("a", owned), pod("b", nil)), "N   OWNER\na   a\nb   <none>\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestManifests(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		json, list bool
		n          int
		want       string
	}{
		"no objects in YAML": {false, true, 0, "apiVersion: v1\nitems: []\nkind: List\n"},
		"a list in YAML":     {false, true, 2, "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n"},
		"one in YAML":        {false, false, 1, "apiVersion: v1\nkind: Pod\n"},
		"a list in JSON":     {true, true, 2, "{\n    \"apiVersion\": \"v1\",\n    \"items\": [\n        {\n"},
		"one in JSON":        {true, false, 1, "{\n    \"apiVersion\": \"v1\",\n    \"kind\": \"Pod\",\n"},
	} {
		var b strings.Builder
		objects := []*coppicev1.Object{pod("a", nil), pod("b", nil)}[:tc.n]
		if got := printed(t, &b, &printing.ManifestPrinter{W: &b, JSON: tc.json, List: tc.list}, objects...); !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: %q, want it to begin with %q", name, got, tc.want)
		}
	}
}
