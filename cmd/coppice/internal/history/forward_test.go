package history

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// madeLog is a log whose commits have the positions 1 to last, of which some are missing or are no commits. The commit
// at a position is of this number of seconds.
type madeLog struct {
	client.LogClient
	last    uint64
	missing [][2]uint64 // first and last positions, in order
	skipped []uint64
	reads   int
}

func (l *madeLog) Last(context.Context, ...client.CommitOption) (uint64, error) { return l.last, nil }

func (l *madeLog) Read(_ context.Context, opts ...client.LogOption) iter.Seq2[client.LogCommit, error] {
	var of client.LogOptions
	for _, o := range opts {
		o.ApplyToLog(&of)
	}
	l.reads++
	return func(yield func(client.LogCommit, error) bool) {
		n := 0
		for at := of.FromSequence; at <= l.last && (of.ToSequence == 0 || at <= of.ToSequence); at++ {
			for _, m := range l.missing {
				if at >= m[0] && at <= m[1] {
					yield(client.LogCommit{}, fmt.Errorf("log: %w", &client.Error{
						Reason: client.ErrExpired, Message: fmt.Sprintf("commits %d to %d are missing", m[0], m[1]),
						Causes: []client.Cause{{Reason: client.CauseLogContinues, Message: strconv.FormatUint(m[1]+1, 10)}},
					}))
					return
				}
			}
			if slices.Contains(l.skipped, at) {
				continue
			}
			if n++; !yield(client.LogCommit{Sequence: at, Commit: &coppicev1.Commit{Time: int64(at) * 1e6}}, nil) || n == of.Limit {
				return
			}
		}
	}
}

// A time is found in as many steps as a search by halves needs, also in a log that has lost commits.
func TestSeekTime(t *testing.T) {
	t.Parallel()
	const last = 1_000_000
	for _, c := range []struct {
		missing [][2]uint64
		second  int64
		want    uint64
	}{
		{nil, 0, 1},
		{nil, 1, 1},
		{nil, 2, 2},
		{nil, 765_432, 765_432},
		{nil, last, last},
		{nil, last + 1, last + 1},
		{[][2]uint64{{1, 400_000}}, 10, 1}, // what is missing may be of this time
		{[][2]uint64{{1, 400_000}}, 400_001, 1},
		{[][2]uint64{{1, 400_000}}, 400_002, 400_002},
		{[][2]uint64{{300, 500_000}}, 299, 299},
		{[][2]uint64{{300, 500_000}}, 4_000, 300},
		{[][2]uint64{{300, 500_000}, {500_002, 600_000}}, 500_001, 300},
		{[][2]uint64{{300, 500_000}, {500_002, 600_000}}, 500_002, 500_002},
		{[][2]uint64{{300, 500_000}, {500_002, 600_000}}, 600_002, 600_002},
		{[][2]uint64{{300, last}}, 400, 300},
	} {
		log := &madeLog{last: last, missing: c.missing}
		h, err := Open(t.Context(), log, nil)
		must.Succeed(t, err)
		got, err := h.SeekTime(t.Context(), time.Unix(c.second, 0))
		if err != nil || got != c.want {
			t.Errorf("without %v, second %d is at %d, want %d: %v", c.missing, c.second, got, c.want, err)
		}
		if steps := bits.Len(last); log.reads > steps*(1+len(c.missing)) {
			t.Errorf("without %v, second %d took %d reads, and the log needs %d steps", c.missing, c.second, log.reads, steps)
		}
	}
}

// A read goes on after each part of the log that is missing, and names these parts.
func TestReadOn(t *testing.T) {
	t.Parallel()
	log := &madeLog{last: 12, missing: [][2]uint64{{1, 3}, {6, 7}, {11, 12}}, skipped: []uint64{5}}
	var got []string
	err := ReadOn(t.Context(), log, client.LogOptions{FromSequence: 1, ToSequence: 12}, func(c client.LogCommit) error {
		got = append(got, fmt.Sprint(c.Sequence))
		return nil
	}, func(g Gap) error {
		got = append(got, fmt.Sprintf("%d to %d", g.From, g.Next))
		return nil
	})
	if want := []string{"1 to 4", "4", "5 to 8", "8", "9", "10", "11 to 13"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("read %v, %v; want %v", got, err, want)
	}
	stop := errors.New("stop")
	err = ReadOn(t.Context(), log, client.LogOptions{FromSequence: 1}, func(client.LogCommit) error { return nil }, func(Gap) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("an error of gap is %v", err)
	}
}

// The origin of an event is the command of a client at the end of its causes, which is remembered.
func TestOrigins(t *testing.T) {
	t.Parallel()
	log, reads := testLog(), 0
	origins := &Origins{Find: func(_ context.Context, revision uint64) (*client.LogEvent, error) {
		reads++
		if e, ok := log[revision]; ok {
			return &e, nil
		}
		return nil, &MissingError{Revision: revision}
	}}
	for revision, want := range map[uint64]uint64{10: 10, 11: 10, 12: 10, 13: 10, 14: 10, 15: 10, 16: 10, 17: 10, 18: 10, 20: 20, 22: 20, 23: 0, 27: 0, 50: 51} {
		e := log[revision]
		if revision == 50 { // its cause is later in testLog
			e.Revision = 52
		}
		got, err := origins.Of(t.Context(), &e)
		if err != nil || (got == nil) != (want == 0) || got != nil && got.Revision != want {
			t.Errorf("the origin of %d is %+v, %v; want %d", revision, got, err, want)
		}
	}
	e := log[24]
	var missing *MissingError
	if _, err := origins.Of(t.Context(), &e); !errors.As(err, &missing) || missing.Revision != 1 {
		t.Errorf("the origin of 24, whose cause is pruned: %v", err)
	}
	e, reads = log[13], 0
	if got, err := origins.Of(t.Context(), &e); err != nil || got.Revision != 10 || reads > 0 {
		t.Errorf("the origin of 13 is %+v, %v, after %d reads; want none", got, err, reads)
	}
}
