package plan

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Plan files of versions 1 and 2, which have one deletion, are read. Version 1 has no times of
// finalizers.
func TestOldPlanFiles(t *testing.T) {
	t.Parallel()
	for version, text := range map[int]string{
		1: `{"format":"coppice.dev/plan-file","version":1,"realm":"default","time":"2026-11-25T10:00:00Z","deletion":{"resource":"configmaps","namespace":"shop","objects":[{"name":"web"}],"propagationPolicy":"Background","gracePeriodSeconds":5},"plan":{"revision":7,"hash":"0123456789abcdef","plan":"0123456789abcdef@7","counts":{"removed":1,"removedLater":0,"blocked":0,"orphaned":0,"stripped":0,"kept":0},"objects":[{"resource":"configmaps","namespace":"shop","name":"web","uid":"u","outcome":"removed","requested":true}]},"checksum":"7728a736941f98d78e2ee0330501e4de41e6e61ca15bb6c5294f6c4211add8e4"}`,
		2: `{"format":"coppice.dev/plan-file","version":2,"realm":"default","time":"2026-11-25T10:00:00Z","deletion":{"resource":"configmaps","namespace":"shop","objects":[{"name":"web"}],"propagationPolicy":"Background","gracePeriodSeconds":5},"plan":{"revision":7,"hash":"0123456789abcdef","plan":"0123456789abcdef@7","counts":{"removed":1,"removedLater":0,"blocked":0,"orphaned":0,"stripped":0,"kept":0},"objects":[{"resource":"configmaps","namespace":"shop","name":"web","uid":"u","outcome":"removed","requested":true}],"finalizers":[{"name":"example.com/bucket","removals":1,"medianSeconds":1.5,"longestSeconds":1.5}]},"checksum":"f9c3261bf8c6748fa13846dd721dd823d586e18eec79d2c64137bd88e89c26e9"}`,
	} {
		name := filepath.Join(t.TempDir(), "plan.json")
		must.Succeed(t, os.WriteFile(name, []byte(text), 0o600))
		f, err := ReadFile(name)
		if err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		seconds := int64(5)
		want := []Deletion{{Resource: "configmaps", Namespace: "shop", Objects: []Victim{{"web"}}, PropagationPolicy: "Background", GracePeriodSeconds: &seconds}}
		if !reflect.DeepEqual(f.Deletions, want) || f.Version != version || f.Plan.Plan != "0123456789abcdef@7" || len(f.Plan.Finalizers) != version-1 {
			t.Errorf("version %d is read as %+v", version, f)
		}
	}
}

// A file that is written is read as it was, and its deletions are those of the request.
func TestFile(t *testing.T) {
	t.Parallel()
	name, now, grace := filepath.Join(t.TempDir(), "plan.json"), time.Date(2026, 3, 2, 12, 0, 0, 5, time.UTC), 5*time.Second
	r := requestOf(t, Object{pods, "shop", "a"}, Object{configMaps, "lab", "b"})
	must.Succeed(t, r.Add(Object{namespaces, "", "n"}, client.Orphan, &grace))
	p := &client.Plan{
		Revision: 7, Hash: "h", Plan: "h@7", Counts: &coppicev1.PlanCounts{Removed: 1, Kept: 2},
		Objects: []*coppicev1.PlannedObject{{
			Resource: "pods", Namespace: "shop", Name: "a", Uid: "u", Outcome: coppicev1.PlanOutcome_PLAN_OUTCOME_BLOCKED, Requested: true, ExpiresAt: now.UnixMicro(),
			Blockers: []*coppicev1.PlanBlocker{{Type: coppicev1.PlanBlocker_TYPE_FINALIZER, Name: "example.com/x", Until: now.UnixMicro()}},
		}},
	}
	times := []history.FinalizerTime{{Name: "example.com/x", Removals: 2, Median: time.Second, Longest: 90 * time.Second}}
	must.Succeed(t, WriteFile(name, "default", now, r, p, times))
	f, err := ReadFile(name)
	must.Succeed(t, err)
	if want := JSONOf(p, times); !reflect.DeepEqual(f.Plan, want) || f.Realm != "default" || !f.Time.Equal(now.Truncate(time.Second)) {
		t.Errorf("it is read as %+v, want the plan %+v", f, want)
	}
	if got := f.Plan.Objects[0]; got.Outcome != "Blocked" || got.Blockers[0].Type != "Finalizer" || !got.Blockers[0].Until.Equal(now.Truncate(time.Microsecond)) || f.Plan.Finalizers[0].MedianSeconds != 1 {
		t.Errorf("the plan is read as %+v", f.Plan)
	}
	again := &Request{}
	if err := again.AddFile(&f, []client.Kind{pods, configMaps, namespaces}); err != nil || !reflect.DeepEqual(again.Parts, r.Parts) {
		t.Errorf("its deletions are %+v, %v; want %+v", again.Parts, err, r.Parts)
	}
	if err := again.AddFile(&f, []client.Kind{pods, namespaces}); err == nil || !strings.Contains(err.Error(), "the kind of configmaps is not registered any more") {
		t.Errorf("without a kind: %v", err)
	}
	if got := WrittenTo("it's", p); got != `plan h@7 written; to do just that: coppice delete --plan-file 'it'\''s'`+"\n" {
		t.Errorf("the command is %q", got)
	}
}

// A file that is no plan file, damaged, changed or of a newer version is refused.
func TestRefusedFiles(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "plan.json")
	must.Succeed(t, WriteFile(name, "default", time.Now(), requestOf(t, Object{pods, "shop", "a"}), &client.Plan{Plan: "h@7"}, nil))
	written, err := os.ReadFile(name)
	must.Succeed(t, err)
	text := string(written)
	for _, c := range []struct{ text, want string }{
		{"nonsense", "is not a plan file"},
		{`{"format":"other"}`, "is not a plan file"},
		{text[:len(text)/2], "the plan file is damaged"},
		{strings.Replace(text, `"name": "a"`, `"name": "b"`, 1), "its checksum does not match"},
		{strings.Replace(text, `"realm"`, `"more": 1, "realm"`, 1), "the plan file is damaged"},
		{strings.Replace(text, `"version": 3`, `"version": 4`, 1), "format version 4, and this coppice reads versions up to 3"},
		{text, ""},
	} {
		must.Succeed(t, os.WriteFile(name, []byte(c.text), 0o600))
		if _, err := ReadFile(name); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	if _, err := ReadFile(name + ".none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
