package write

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/internal/manifestfile"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

func entryOf(apiVersion, kind, name string) manifestfile.Entry {
	return manifestfile.Entry{Object: &coppicev1.Object{ApiVersion: apiVersion, Kind: kind, Metadata: &coppicev1.ObjectMeta{Name: name}}}
}

// A window ends before the registration of a kind, which is alone in its own, and
// before an object that is in it already; broken entries and names that the server
// completes end none.
func TestWindow(t *testing.T) {
	t.Parallel()
	pod, kind := entryOf("v1", "Pod", "a"), entryOf("coppice.dev/v1", "Kind", "k")
	var many []manifestfile.Entry
	for i := range windowObjects + 1 {
		many = append(many, entryOf("v1", "Pod", fmt.Sprint(i)))
	}
	unnamed := entryOf("v1", "Pod", "")
	for name, tc := range map[string]struct {
		entries []manifestfile.Entry
		want    int
	}{
		"one":               {[]manifestfile.Entry{pod}, 1},
		"a kind first":      {[]manifestfile.Entry{kind, pod}, 1},
		"a kind later":      {[]manifestfile.Entry{pod, entryOf("v1", "Pod", "b"), kind}, 2},
		"again":             {[]manifestfile.Entry{pod, entryOf("v1", "Service", "a"), pod}, 2},
		"unnamed or broken": {[]manifestfile.Entry{unnamed, unnamed, {Err: fmt.Errorf("broken")}, {Err: fmt.Errorf("broken")}}, 4},
		"many":              {many, windowObjects},
	} {
		if got := (&fileWriter{}).window(tc.entries); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

// A batch has at most batchObjects objects, and as many as fit, but at least one.
func TestBatchOfWrites(t *testing.T) {
	t.Parallel()
	w := &fileWriter{maxBytes: 1000}
	group := func(n, bytes int) (list []*outcome) {
		for range n {
			e := entryOf("v1", "ConfigMap", "a")
			e.Object.Spec = []byte(strings.Repeat("x", bytes))
			list = append(list, &outcome{Item: cli.Item{Entry: e}})
		}
		return list
	}
	for _, tc := range []struct{ n, bytes, want int }{{2, 0, 2}, {3, 400, 2}, {3, 2000, 1}} {
		if got := w.batch(group(tc.n, tc.bytes)); got != tc.want {
			t.Errorf("%d objects of %d bytes: %d, want %d", tc.n, tc.bytes, got, tc.want)
		}
	}
	w.maxBytes = 1 << 30
	if got := w.batch(group(batchObjects+1, 0)); got != batchObjects {
		t.Errorf("%d, want %d", got, batchObjects)
	}
}

// The summary of an import counts the objects that the collector has deleted meanwhile.
func TestImportSummary(t *testing.T) {
	t.Parallel()
	sum := references{deleted: 3}
	sum.add(&coppicev1.GraphNode{})
	sum.add(&coppicev1.GraphNode{Owners: []*coppicev1.GraphOwner{{Class: coppicev1.OwnerClass_OWNER_CLASS_SOLID}}})
	if got, want := sum.String(), "1 reference solid, 1 root, 1 object deleted since"; got != want {
		t.Errorf("the summary is %q, want %q", got, want)
	}
}
