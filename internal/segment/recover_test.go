package segment_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/internal/segment/segmenttest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// A segment that was cut anywhere, or closed, is continued behind its complete blocks: the
// result has all commits, and no others.
func TestResume(t *testing.T) {
	t.Parallel()
	log := segmenttest.New(20)
	whole, info := segmenttest.Write(t, log.Messages, 0)
	for _, n := range []int{0, 1, 9, 20} {
		var b []byte
		if n > 0 {
			b, _ = segmenttest.Write(t, log.Messages[:n], 3)
		}
		for cut := range len(b) + 1 {
			file := bytes.NewBuffer(bytes.Clone(b[:cut]))
			r, err := segment.Resume(bytes.NewReader(b[:cut]), int64(cut), file)
			if err != nil {
				t.Fatalf("%d commits, cut at %d: %v", n, cut, err)
			}
			file.Truncate(int(r.End))
			last := r.Last().Sequence
			if kept := r.Kept; (kept != nil) != (last > 0) || kept != nil && kept.Info().Last != r.Last() {
				t.Fatalf("%d commits, cut at %d: it goes on after commit %d, and has %+v", n, cut, last, kept)
			}
			for _, m := range log.Messages[last:] {
				must.Succeed(t, r.Add(m.Position, m.Data))
			}
			closed, err := r.Close()
			must.Succeed(t, err)
			got, err := segment.Verify(file)
			if err != nil || got != closed || got.Hash != info.Hash || got.Commits != info.Commits {
				t.Fatalf("%d commits, cut at %d: %+v, %v, want %+v", n, cut, got, err, closed)
			}
		}
	}
	if r := open(t, whole); r.Info() != info {
		t.Error("the segment that was written at once differs")
	}
}

// A segment that is damaged otherwise than by its missing end is not continued.
func TestResumeDamaged(t *testing.T) {
	t.Parallel()
	b, p, _ := small(t)
	for at := range b {
		damaged := bytes.Clone(b)
		damaged[at] ^= 0x10
		r, err := segment.Resume(bytes.NewReader(damaged), int64(len(damaged)), io.Discard)
		var version *segment.VersionError
		var d *segment.DamagedError
		switch begin, _ := p.of(int64(at)); {
		case errors.Is(err, io.ErrUnexpectedEOF), err == nil:
			t.Fatalf("byte %d: %v", at, err)
		case r != nil || !errors.As(err, &version) && (!errors.As(err, &d) || d.Offset != begin):
			t.Fatalf("byte %d: %v, want damage at %d", at, err, begin)
		}
	}
}

// Of a damaged segment the blocks before the damage can be read.
func TestRecover(t *testing.T) {
	t.Parallel()
	b, p, log := small(t)
	for at := range b {
		damaged := bytes.Clone(b)
		damaged[at] ^= 0x10
		r, err := segment.Recover(bytes.NewReader(damaged), int64(len(damaged)))
		if err == nil {
			t.Fatalf("byte %d: no error", at)
		}
		_, sequence := p.of(int64(at))
		if sequence == 0 {
			if r != nil {
				t.Fatalf("byte %d: commits up to %d", at, r.Info().Last.Sequence)
			}
			continue
		}
		got, failure := collect(r.Commits(0))
		if failure != nil {
			t.Fatalf("byte %d: %v", at, failure)
		}
		expect(t, got, log.Messages[:sequence])
	}
	r, err := segment.Recover(bytes.NewReader(b), int64(len(b)))
	if err != nil || r.Info() != open(t, b).Info() {
		t.Errorf("an undamaged segment: %+v, %v", r.Info(), err)
	}
}

// Positions and revisions are found in each block, also those that no commit has.
func TestSeek(t *testing.T) {
	t.Parallel()
	log := segmenttest.New(40)
	b, info := segmenttest.Write(t, log.Messages[5:], 7)
	r := open(t, b)
	commits, err := collect(r.Commits(0))
	must.Succeed(t, err)
	for position := range info.Last.Position + 1 {
		want := uint64(0)
		for _, c := range commits {
			if c.Position >= position {
				want = c.Sequence
				break
			}
		}
		if got, err := r.AtPosition(position); err != nil || got != want {
			t.Errorf("position %d: commit %d, %v, want %d", position, got, err, want)
		}
	}
	if _, err := r.AtPosition(info.Last.Position + 1); !errors.Is(err, segment.ErrOutside) {
		t.Errorf("a position behind the last: %v", err)
	}
	for revision := range info.Last.Revision + 3 {
		want := commits[0].Position
		for _, c := range commits {
			if c.FirstRevision <= revision {
				want = c.Position
			}
		}
		if got, err := r.SeekRevision(revision); err != nil || got != want {
			t.Errorf("revision %d: position %d, %v, want %d", revision, got, err, want)
		}
	}
}
