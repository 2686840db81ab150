package wholelog

import (
	"errors"
	"fmt"
	"testing"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// That an archive cannot be read now is another error than that a segment is damaged, of a newer version, or gone.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want bool
	}{
		{errors.New("timeout"), true},
		{&segment.DamagedError{Err: errors.New("checksum")}, false},
		{&segment.VersionError{}, false},
		{archive.Damaged(errors.New("a chunk is missing")), false},
		{archive.ErrNotFound, false},
		{segment.ErrOutside, false},
	} {
		err := unavailable(fmt.Errorf("segment: %w", c.err))
		var is *UnavailableError
		if got := errors.As(err, &is); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%v: unavailable: %t", err, got)
		}
	}
}

// A read before the first part that is known, because what precedes it was pruned or cannot be read now,
// does not go on behind the gap.
func TestReadBeforeKnownParts(t *testing.T) {
	t.Parallel()
	h := &Lineage{Log: &Log{Log: &eventlog.Log{}}, parts: []part{{first: 10, last: 19}, {first: 22, last: 30}}}
	for from, want := range map[uint64]int{10: 2, 15: 2, 20: 1, 22: 1, 30: 1, 31: 0} {
		if parts, err := h.known(from); err != nil || len(parts) != want {
			t.Errorf("from %d: %d parts, %v; want %d", from, len(parts), err, want)
		}
	}
	if parts, err := h.known(9); !errors.Is(err, eventlog.ErrCut) || len(parts) > 0 {
		t.Errorf("before the first: %v, %v", parts, err)
	}
	h.failure = &UnavailableError{errors.New("timeout")}
	if _, err := h.known(9); !errors.Is(err, h.failure) {
		t.Errorf("before the first, while the archive cannot be read: %v", err)
	}
}
