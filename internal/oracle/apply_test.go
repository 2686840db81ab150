package oracle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/oracle"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Write implements oracle.Applier. All objects are Widgets.
func (s *coppice) Write(_ context.Context, w oracle.Write) (*oracle.Written, error) {
	kind, _, _ := s.target(w.Name)
	ctx := s.realm.Context()
	ctx.MaxObject = 1 << 20
	var out *lifecycle.Outcome
	var refused *lifecycle.Error
	if w.Verb == oracle.Patch {
		out, refused = lifecycle.Patch(ctx, kind, &coppicev1.Patch{Name: w.Name, Patch: w.Body})
	} else {
		rule := lifecycle.Create
		if w.Verb == oracle.Apply {
			rule = lifecycle.Apply
		}
		o, err := widget(w.Body)
		if err != nil {
			return &oracle.Written{Code: 1, Said: "no manifest"}, nil //nolint:nilerr // a reply
		}
		out, refused = rule(ctx, kind, o)
	}
	if refused != nil {
		return &oracle.Written{Code: 1, Said: string(refused.Reason)}, nil //nolint:nilerr // a reply
	}
	_, _, existed := s.target(w.Name)
	s.realm.Apply(out.Events)
	written := &oracle.Written{Warned: slices.ContainsFunc(out.Warnings, func(w string) bool { return !lifecycle.OwnersWarned(w) })}
	switch {
	case w.Verb == oracle.Patch:
		written.Said = "patched"
	case !existed:
		written.Said = "created"
	case len(out.Events) == 0:
		written.Said = "unchanged"
	default:
		written.Said = "configured"
	}
	return written, nil
}

// Read implements oracle.Applier.
func (s *coppice) Read(_ context.Context, _ oracle.Target, name string) (oracle.Object, error) {
	_, at, exists := s.target(name)
	if !exists {
		return nil, nil
	}
	n, refused := lifecycle.Find(s.realm, at)
	if refused != nil {
		return nil, refused
	}
	reply, err := accepted(200, lifecycle.Object{Node: n, Body: s.realm.Body(n)})
	if err != nil {
		return nil, err
	}
	return reply.Object, nil
}

// target returns the key for requests with a body, and the key of the object of this name.
func (s *coppice) target(name string) (kind, object lifecycle.Key, exists bool) {
	kind = lifecycle.Key{Kind: s.realm.Kinds().Of(oracle.Group, "Widget"), Namespace: "default"}
	object = kind
	object.Name = name
	return kind, object, s.realm.Lookup(object.Kind, object.Namespace, object.Name) != ""
}

// widget reads a manifest as that of a Widget.
func widget(body []byte) (*coppicev1.Object, error) {
	o, err := oracle.ReadObject(body)
	if err != nil {
		return nil, err
	}
	o["apiVersion"], o["kind"] = oracle.Group+"/"+oracle.Version, "Widget"
	if body, err = json.Marshal(o); err != nil {
		return nil, err
	}
	return manifest.FromJSON(body)
}

// TestReplayApply compares apply with the recordings of kubectl apply. Where Coppice
// deliberately does something else, a rule of testdata/apply-deviations.txt names it, and why.
// A rule that explains nothing fails the test.
func TestReplayApply(t *testing.T) { //nolint:tparallel // the scripts end before the rules are counted
	t.Parallel()
	deviations := readDeviations(t, "testdata/apply-deviations.txt")
	t.Run("scripts", func(t *testing.T) {
		datadriven.Walk(t, "testdata/apply", func(t *testing.T, path string) {
			t.Helper()
			t.Parallel()
			checkRecording(t, path)
			replayApply(t, path, deviations)
		})
	})
	for _, d := range deviations.list {
		if !d.used {
			t.Errorf("%s: Coppice does not deviate from kubectl like this: remove the line", d.line)
		}
	}
}

func replayApply(t *testing.T, path string, deviations *deviations) {
	t.Helper()
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	var mistakes []string
	script := oracle.NewApply(strings.ToLower(name), newCoppice(t, lifecycletest.InOrder), "")
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		t.Helper()
		got, err := script.Run(t.Context(), d)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		if script.Done() {
			return d.Expected
		}
		of := []string{name}
		if d.Cmd == "apply-steps" {
			of = append(of, d.CmdArgs[0].Key)
		}
		want, have := cells(of, d.Expected), cells(of, got)
		if len(want) != len(have) {
			d.Fatalf(t, "Coppice replies with %d cells, and %d are recorded", len(have), len(want))
		}
		for i := range want {
			if want[i].key != have[i].key {
				d.Fatalf(t, "Coppice replies for %s, and %s is recorded", have[i].key, want[i].key)
			}
			if strings.HasSuffix(want[i].key, "--server-side") {
				continue // Coppice has no such apply
			}
			if mistake := deviations.check(have[i], want[i].text); mistake != "" {
				mistakes = append(mistakes, mistake)
			}
		}
		return d.Expected // -rewrite must not change recordings
	})
	for _, line := range mistakes { // datadriven ends a script after a case that fails
		t.Error(line)
	}
}

// cell is a result in a table. Its key is what it is the result of.
type cell struct{ key, text string }

var blanks = regexp.MustCompile(` {2,}`)

// cells returns the results in a table. The first line of a table names its columns: what was
// written, and then a target for each column of results. In the tables of steps, the target
// is a column.
func cells(of []string, table string) []cell {
	var all []cell
	lines := strings.Split(strings.TrimSpace(table), "\n")
	heads := blanks.Split(lines[0], -1)
	for _, line := range lines[1:] {
		texts := blanks.Split(line, -1)
		if heads[0] == "step" {
			key := append(slices.Clone(of), texts[:2]...)
			all = append(all, cell{strings.Join(key, " | "), texts[2]})
			continue
		}
		for i, head := range heads[3:] {
			key := append(append(slices.Clone(of), texts[:3]...), head)
			all = append(all, cell{strings.Join(key, " | "), ordered(of[0], texts[3+i])})
		}
	}
	return all
}

// ordered returns a result with finalizers and owner references in alphabetical order. Their
// order has no meaning, and apply need not have that of kubectl.
func ordered(field, result string) string {
	before, list, is := strings.Cut(strings.TrimSuffix(result, "]"), "[")
	if !is || field != "finalizers" && field != "ownerReferences" {
		return result
	}
	members := strings.Fields(list)
	slices.Sort(members)
	return before + "[" + strings.Join(members, " ") + "]"
}

// deviation is a rule: for cells with a key that matches, Coppice has this text.
type deviation struct {
	line string
	key  [][]string // the alternatives of each part of the key
	text string
	used bool
}

type deviations struct {
	mu   sync.Mutex
	list []*deviation
}

// readDeviations reads rules. Comments above them are their reasons, and an empty line ends a
// group of rules with one reason.
func readDeviations(t *testing.T, path string) *deviations {
	t.Helper()
	raw, err := os.ReadFile(path)
	must.Succeed(t, err)
	var all deviations
	reason := ""
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		comment, is := strings.CutPrefix(line, "#")
		switch {
		case line == "":
			reason = ""
			continue
		case is:
			reason += comment
			continue
		}
		key, text, ok := strings.Cut(line, " => ")
		if !ok || reason == "" {
			t.Fatalf("%s: %s: a deviation is a line such as 'labels | a=1 | b=2,nothing | * | Widget => b=2' with a comment above it that says why", path, line)
		}
		d := &deviation{line: line, text: text}
		for part := range strings.SplitSeq(key, " | ") {
			d.key = append(d.key, strings.Split(part, ","))
		}
		all.list = append(all.list, d)
	}
	return &all
}

// check returns what is wrong with a result of Coppice, given that of kubectl: it deviates
// without a rule, or it does not deviate and there is a rule.
func (all *deviations) check(have cell, want string) string {
	all.mu.Lock()
	defer all.mu.Unlock()
	explained := false
	for _, d := range all.list {
		switch {
		case !d.matches(strings.Split(have.key, " | ")):
		case have.text == want:
			return fmt.Sprintf("%s: no deviation, but there is the rule '%s'", have.key, d.line)
		case d.text == have.text:
			d.used, explained = true, true
		}
	}
	if have.text != want && !explained {
		return fmt.Sprintf("%s => %s (kubectl: %s)", have.key, have.text, want)
	}
	return ""
}

func (d *deviation) matches(key []string) bool {
	if len(key) != len(d.key) {
		return false
	}
	for i, alternatives := range d.key {
		if !slices.Contains(alternatives, "*") && !slices.Contains(alternatives, key[i]) {
			return false
		}
	}
	return true
}
