package tail

import (
	"errors"
	"os"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// A file in which any byte has changed, or that is cut, has no mark.
func TestDamage(t *testing.T) {
	t.Parallel()
	file := File(t.TempDir(), "default")
	if m, err := Read(file); err != nil || m != (Mark{}) {
		t.Fatalf("without a file: %+v, %v", m, err)
	}
	want := Mark{Sequence: 12, Position: 13, Revision: 140, Checksum: 1 << 63}
	must.Succeed(t, Write(file, want))
	if m, err := Read(file); err != nil || m != want {
		t.Fatalf("read %+v, %v", m, err)
	}
	whole, err := os.ReadFile(file)
	must.Succeed(t, err)
	refused := func(what string, b []byte) {
		t.Helper()
		must.Succeed(t, os.WriteFile(file, b, 0o600))
		if m, err := Read(file); !errors.Is(err, ErrDamaged) || m != (Mark{}) {
			t.Errorf("%s: %+v, %v", what, m, err)
		}
	}
	for i := range len(whole) - 1 { // the last is a newline
		b := append([]byte{}, whole...)
		b[i] ^= 4
		refused("a flipped bit", b)
		refused("a cut", whole[:i])
	}
}

// The mark moves only forwards, until the log has recorded that its commit is lost.
func TestKeeper(t *testing.T) {
	t.Parallel()
	file := File(t.TempDir(), "default")
	k, err := Open(file)
	must.Succeed(t, err)
	keep := func(sequence, want uint64) {
		t.Helper()
		must.Succeed(t, k.Keep(&coppicev1.Checkpoint{Sequence: sequence, Revision: 10 * sequence}))
		if m, err := Read(file); err != nil || m.Sequence != want {
			t.Errorf("after commit %d the mark is at %d, want %d (%v)", sequence, m.Sequence, want, err)
		}
	}
	keep(5, 5)
	keep(3, 5)
	if k.Forget(1000) {
		t.Error("forgotten, and no commit was lost")
	}
	k.Freeze()
	keep(6, 5)
	if k.Forget(40) { // an earlier loss, which the log had recorded before commit 5
		t.Error("forgotten for an earlier loss")
	}
	keep(6, 5)
	if !k.Forget(1000) {
		t.Error("not forgotten")
	}
	keep(3, 3)
}
