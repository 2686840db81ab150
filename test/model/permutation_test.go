package model_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/drawn"
)

// TestOrderOfImports imports the same objects, with owners, finalizers and
// deletions, in two orders.
//
// R2: both orders have the same outcome, or each an outcome to which the rules lead from the
// imported objects, whatever services do before the session ends.
func TestOrderOfImports(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.Context(t))
	property := func(t *rapid.T) {
		d := &drawer{T: t}
		var lines []string
		for i := range 8 {
			at := pick(d, "cm", "po", "rc", "wd", "ow", "en") + fmt.Sprint("/", i)
			line := "import " + at
			if i > 0 { // the invalid owners must not depend on the order
				line += strings.NewReplacer("~uid", "~never", "~old", "~name").Replace(d.owners())
			}
			line += d.finalizers()
			line += d.rarely(3, "deleting")
			lines = append(lines, line)
			d.made = append(d.made, at)
		}
		other := rapid.Permutation(lines).Draw(t, "order")
		first, err := w.imported(t, lines)
		second, err2 := w.imported(t, other)
		if err != nil || err2 != nil {
			w.tb.Logf("%v %v\n%s\n\n%s", err, err2, strings.Join(lines, "\n"), strings.Join(other, "\n"))
			t.Fatal("an import did not go by the model")
		}
		if !first.same(second) {
			w.tb.Logf("imported in the orders\n\n%s\n\nand\n\n%s\n\nthere was\n%sand\n%s", strings.Join(lines, "\n"), strings.Join(other, "\n"), first.left, second.left)
			t.Fatal("R2: the order of imports matters")
		}
	}
	for i := range max(3, *ops/2000) {
		drawn.Check(t, uint64(i), property)
	}
	w.atRest(t)
}

// arrival is the result of an import.
type arrival struct {
	tag   string
	ended *model // the objects as they were imported, when the session ended
	now   int64
	final string // the state when no work was left
	left  string // without values that differ between the two imports, or that the rules leave open
}

// numbers matches values that differ between runs of a script.
var numbers = regexp.MustCompile(`\bs\d+\b`)

// imported imports the lines in one session, in which every named owner has a place, and
// waits until no work is left.
func (w *world) imported(t *rapid.T, lines []string) (*arrival, error) {
	s := w.begin()
	defer s.end()
	s.importing = true
	for _, line := range append(append([]string{}, lines...), "close", "settle") {
		if err := s.do(t.Context(), line); err != nil {
			return nil, err
		}
	}
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	m := s.a.project(s.tag)
	r := &arrival{tag: s.tag, ended: s.ended, now: s.a.now, final: m.final()}
	for _, o := range m.objects {
		if o.terminating() {
			o.owners = nil // whether an owner reference was removed before the object was deleted is left open
		}
	}
	r.left = numbers.ReplaceAllString(m.final(), "s")
	return r, nil
}

// same reports whether two imports have the same outcome. If the rules allow several
// outcomes from the end of one session, those of the other must be among them.
func (r *arrival) same(o *arrival) bool { return r.left == o.left || r.mayEndAs(o) && o.mayEndAs(r) }

func (r *arrival) mayEndAs(o *arrival) bool {
	end := regexp.MustCompile(`\b`+o.tag+`\b`).ReplaceAllString(o.final, r.tag)
	reached, _, _ := reaches(r.ended, r.tag, r.now, end)
	return reached
}
