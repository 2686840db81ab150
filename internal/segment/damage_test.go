package segment_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/internal/segment/segmenttest"
)

// parts are the offsets at which the parts of a segment begin, and the sequence of the last
// commit before each.
type parts []struct {
	offset   int64
	sequence uint64
}

// small is a segment of three blocks, its parts and its messages.
func small(tb testing.TB) (b []byte, p parts, log *segmenttest.Log) {
	tb.Helper()
	log = segmenttest.New(11)
	b, info := segmenttest.Write(tb, log.Messages, 4)
	if info.Blocks != 3 {
		tb.Fatalf("%d blocks", info.Blocks)
	}
	p = parts{{0, 0}}
	var sequence uint64
	for at := 0; at >= 0; {
		next := -1
		for _, magic := range []string{"CBLK", "CIDX", "CEND"} {
			if i := bytes.Index(b[at+1:], []byte(magic)); i >= 0 && (next < 0 || at+1+i < next) {
				next = at + 1 + i
			}
		}
		if next >= 0 {
			p = append(p, struct {
				offset   int64
				sequence uint64
			}{int64(next), sequence})
			sequence = min(sequence+4, 11)
		}
		at = next
	}
	if len(p) != 1+3+2 {
		tb.Fatalf("parts: %v", p)
	}
	return b, p, log
}

// of is the part with the byte at an offset: where it begins, and the last good sequence.
func (p parts) of(offset int64) (begin int64, sequence uint64) {
	for _, part := range p {
		if part.offset <= offset {
			begin, sequence = part.offset, part.sequence
		}
	}
	return begin, sequence
}

// refuse reads a segment in each way, and requires that each fails with the same
// offset and the same last good commit.
func refuse(t *testing.T, what string, b []byte, offset int64, good uint64, log *segmenttest.Log) *segment.DamagedError {
	t.Helper()
	check := func(way string, err error) *segment.DamagedError {
		var damaged *segment.DamagedError
		if !errors.As(err, &damaged) {
			t.Fatalf("%s: %s: error %v", what, way, err)
		}
		want := segment.Point{}
		if good > 0 {
			want = segmenttest.New(int(good)).Last
		}
		if damaged.Offset != offset || damaged.Good != want {
			t.Errorf("%s: %s: damaged at byte %d after %+v, want byte %d after %+v: %v", what, way, damaged.Offset, damaged.Good, offset, want, err)
		}
		return damaged
	}
	got, err := collect(segment.NewScanner(bytes.NewReader(b)).Commits())
	damaged := check("scan", err)
	expect(t, got, log.Messages[:good])
	r, err := segment.Open(bytes.NewReader(b), int64(len(b)))
	if err == nil {
		_, err = collect(r.Commits(0))
	}
	check("read", err)
	return damaged
}

// Every changed byte is detected, in whichever way the segment is read, and the error has the offset of the part
// that contains it.
func TestEveryByteFlipped(t *testing.T) {
	t.Parallel()
	good, p, log := small(t)
	for at := range good {
		for _, flip := range []byte{0x01, 0x80, 0xff} {
			b := slices.Clone(good)
			b[at] ^= flip
			begin, sequence := p.of(int64(at))
			if 8 <= at && at < 12 { // the version: it is damaged, not newer
				refuse(t, "version", b, 0, 0, log)
				continue
			}
			damaged := refuse(t, "flipped", b, begin, sequence, log)
			if at < 8 != errors.Is(damaged, segment.ErrForeign) {
				t.Errorf("byte %d: %v", at, damaged)
			}
		}
	}
}

// A segment of any shorter length is detected. The error has the length, and the commits
// of all complete blocks are read.
func TestEveryTruncation(t *testing.T) {
	t.Parallel()
	good, p, log := small(t)
	for length := range good {
		_, sequence := p.of(int64(length))
		damaged := refuse(t, "truncated", good[:length], int64(length), sequence, log)
		if length > 0 && !errors.Is(damaged, io.ErrUnexpectedEOF) {
			t.Errorf("length %d: %v", length, damaged)
		}
	}
}

// Bytes that follow a segment, are missing in it or are inserted are detected.
func TestChangedLength(t *testing.T) {
	t.Parallel()
	good, p, log := small(t)
	refuse(t, "appended", append(slices.Clone(good), 0), int64(len(good)), 11, log)
	refuse(t, "twice", slices.Concat(good, good), int64(len(good)), 11, log)
	second, third := p[2].offset, p[3].offset
	refuse(t, "block missing", slices.Delete(slices.Clone(good), int(second), int(third)), second, 4, log)
	refuse(t, "block twice", slices.Insert(slices.Clone(good), int(third), good[second:third]...), third, 8, log)
}

// The footer belongs to the header, even if both are undamaged.
func TestFooterOfAnotherSegment(t *testing.T) {
	t.Parallel()
	good, p, log := small(t)
	other, _ := segmenttest.Write(t, log.Messages[1:], 4)
	b := slices.Concat(other[:p[1].offset], good[p[1].offset:])
	if _, err := segment.Open(bytes.NewReader(b), int64(len(b))); err == nil {
		t.Error("a header of another segment was accepted")
	}
	refuseScan := segment.NewScanner(bytes.NewReader(b))
	if got, err := collect(refuseScan.Commits()); err == nil || len(got) > 0 {
		t.Errorf("%d commits, %v", len(got), err)
	}
}

func TestForeignFiles(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"empty": "", "text": "apiVersion: v1\nkind: Pod\n", "short": "x", "zeros": strings.Repeat("\x00", 4096),
	} {
		b := []byte(content)
		_, err := segment.Open(bytes.NewReader(b), int64(len(b)))
		var damaged *segment.DamagedError
		if !errors.Is(err, segment.ErrForeign) || !errors.As(err, &damaged) || damaged.Offset != 0 {
			t.Errorf("%s: open: %v", name, err)
		}
		if _, err := segment.Verify(bytes.NewReader(b)); !errors.Is(err, segment.ErrForeign) {
			t.Errorf("%s: verify: %v", name, err)
		}
	}
}

// A failure of the storage is not reported as damage: it may pass.
func TestFailingStorage(t *testing.T) {
	t.Parallel()
	good, p, _ := small(t)
	failure := errors.New("connection reset")
	for _, after := range []int64{0, 20, p[2].offset + 50, p[4].offset, int64(len(good))} {
		in := io.MultiReader(bytes.NewReader(good[:after]), iotest.ErrReader(failure))
		_, err := segment.Verify(in)
		var damaged *segment.DamagedError
		if !errors.Is(err, failure) || errors.As(err, &damaged) {
			t.Errorf("after %d bytes: %v", after, err)
		}
	}
	for after := range 6 {
		r, err := segment.Open(&failing{ReaderAt: bytes.NewReader(good), after: after, err: failure}, int64(len(good)))
		if err == nil {
			_, err = collect(r.Commits(0))
		}
		var damaged *segment.DamagedError
		if !errors.Is(err, failure) || errors.As(err, &damaged) {
			t.Errorf("after %d reads: %v", after, err)
		}
	}
}

// failing fails after some reads.
type failing struct {
	io.ReaderAt
	after int
	err   error
}

func (f *failing) ReadAt(b []byte, offset int64) (int, error) {
	if f.after--; f.after < 0 {
		return 0, f.err
	}
	return f.ReaderAt.ReadAt(b, offset)
}
