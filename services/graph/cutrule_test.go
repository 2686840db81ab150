package graph_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/services/graph/archiver"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// Commits may be cut only up to the end of a segment that a verified snapshot covers, whose last command id is not kept, and
// which is not the newest commit.
func TestWhereTheLogMayBeCut(t *testing.T) {
	t.Parallel()
	end := segment.Point{Sequence: 10, Position: 12, Time: 100, Checksum: 7}
	cut := archiver.Place{End: end, Verified: 10, KeptSince: 101, Last: 13}
	for name, c := range map[string]struct {
		change func(*archiver.Place)
		stays  string
	}{
		"covered, old, and not the newest":           {func(*archiver.Place) {}, ""},
		"a later snapshot":                           {func(p *archiver.Place) { p.Verified = 99 }, ""},
		"no verified snapshot":                       {func(p *archiver.Place) { p.Verified = 0 }, "no verified snapshot covers commit 10"},
		"a snapshot of the commit before":            {func(p *archiver.Place) { p.Verified = 9 }, "no verified snapshot covers commit 10"},
		"an id that is kept":                         {func(p *archiver.Place) { p.KeptSince = 100 }, "the command id of commit 10 may still be kept"},
		"nothing is old enough to lose its id":       {func(p *archiver.Place) { p.KeptSince = 0 }, "the command id of commit 10 may still be kept"},
		"the newest commit":                          {func(p *archiver.Place) { p.Last = 12 }, "commit 10 is the newest one"},
		"a stream that ends before, since it lags":   {func(p *archiver.Place) { p.Last = 3 }, "commit 10 is the newest one"},
		"the newest commit, and not covered either":  {func(p *archiver.Place) { p.Last, p.Verified = 12, 9 }, "no verified snapshot covers commit 10"},
		"an old commit, long after the newest cover": {func(p *archiver.Place) { p.KeptSince, p.Last = math.MaxInt64, math.MaxUint64 }, ""},
	} {
		p := cut
		c.change(&p)
		if got := p.Stays(); got != c.stays {
			t.Errorf("%s: %q, want %q", name, got, c.stays)
		}
	}
}

// The commit behind a cut must continue the segment before it.
func TestWhatFollowsACut(t *testing.T) {
	t.Parallel()
	p := archiver.Place{End: segment.Point{Sequence: 10, Position: 12, Checksum: 7}}
	for name, c := range map[string]struct {
		next   eventlog.Header
		lost   bool
		broken bool
		absent bool
	}{
		"the next commit":                                       {next: eventlog.Header{Sequence: 11, Previous: 7}},
		"the next commit behind a hole":                         {next: eventlog.Header{Sequence: 11, Previous: 7}, lost: true},
		"another history":                                       {next: eventlog.Header{Sequence: 11, Previous: 8}, broken: true},
		"another history, and a hole":                           {next: eventlog.Header{Sequence: 11, Previous: 8}, lost: true, broken: true},
		"a commit is missing":                                   {next: eventlog.Header{Sequence: 12, Previous: 9}, broken: true},
		"a commit is missing, and the stream has lost messages": {next: eventlog.Header{Sequence: 12, Previous: 9}, lost: true, absent: true},
		"an earlier commit":                                     {next: eventlog.Header{Sequence: 10, Previous: 7}, lost: true, broken: true},
	} {
		err := p.Follows(c.next, 13, c.lost)
		if broken := errors.As(err, new(*eventlog.BrokenError)); broken != c.broken || errors.Is(err, eventlog.ErrNotFound) != c.absent || (err == nil) == (c.broken || c.absent) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && !strings.Contains(err.Error(), "nothing is cut") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An archiver works faster as the log grows beyond its retention, and without a bound from 1.5 times on.
func TestSpeedOfArchiver(t *testing.T) {
	t.Parallel()
	keep := lifecycle.Retention{Bytes: 1000}
	for bytes, want := range map[uint64]float64{0: 1, 500: 1, 1000: 1, 1100: 1.25, 1250: 2, 1400: 5, 1499: 500, 1500: math.Inf(1), 1 << 40: math.Inf(1)} {
		if got := archiver.Speed(bytes, keep); got != want && math.Abs(got-want) > 1 {
			t.Errorf("with %d of %d bytes: %v, want %v", bytes, keep.Bytes, got, want)
		}
	}
	if got := archiver.Speed(1<<40, lifecycle.Retention{}); got != 1 {
		t.Errorf("without a bound in bytes: %v", got)
	}
}
