package segment_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/codec/commitcodec"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/internal/segment/segmenttest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// open opens a segment in memory.
func open(tb testing.TB, b []byte) *segment.Reader {
	tb.Helper()
	r, err := segment.Open(bytes.NewReader(b), int64(len(b)))
	must.Succeed(tb, err)
	return r
}

// collect returns the commits of an iteration without their contents, and its error.
func collect(commits iter.Seq2[segment.Commit, error]) (list []segment.Commit, err error) {
	for c, err := range commits {
		if err != nil {
			return list, err
		}
		if commitcodec.Checksum(c.Content) != c.Checksum {
			return list, fmt.Errorf("commit %d: the content has another checksum", c.Sequence)
		}
		c.Content = nil
		list = append(list, c)
	}
	return list, nil
}

// expect checks that commits are those of messages.
func expect(tb testing.TB, got []segment.Commit, want []segmenttest.Message) {
	tb.Helper()
	if len(got) != len(want) {
		tb.Fatalf("%d commits, want %d", len(got), len(want))
	}
	for i, c := range got {
		if c.Position != want[i].Position || !bytes.Equal(c.Message, want[i].Data) {
			tb.Errorf("message %d differs: it is at position %d, want %d", i, c.Position, want[i].Position)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	log := segmenttest.New(300)
	noise := rand.NewChaCha8([32]byte{1})
	incompressible := make([]byte, 3<<20) // a block of its own, of more than the usual size
	_, _ = noise.Read(incompressible)
	log.Add(1, string(incompressible))
	log.Add(2000, strings.Repeat("compressible ", 100))
	for range 20 {
		log.Add(1, "tail")
	}
	b, info := segmenttest.Write(t, log.Messages, 0)
	want := segment.Info{
		Version: 1, RealmID: segmenttest.Realm, Last: log.Last, Commits: uint64(len(log.Messages)), Blocks: info.Blocks, Size: int64(len(b)), Hash: hash(log.Messages),
	}
	want.First.Sequence, want.First.Position, want.First.Time = 1, 1, 1_700_000_000_000_000
	if info != want {
		t.Errorf("the writer returns\n%+v, want\n%+v", info, want)
	}
	r := open(t, b)
	if r.Info() != info {
		t.Errorf("the reader returns\n%+v, want\n%+v", r.Info(), info)
	}
	if info.Blocks < 2 {
		t.Errorf("%d blocks", info.Blocks)
	}
	for _, from := range []uint64{0, 1, 2, 150, 300, 301, 302, 303, log.Last.Sequence} {
		got, err := collect(r.Commits(from))
		must.Succeed(t, err)
		expect(t, got, log.Messages[max(from, 1)-1:])
	}
	s := segment.NewScanner(bytes.NewReader(b))
	got, err := collect(s.Commits())
	must.Succeed(t, err)
	expect(t, got, log.Messages)
	if s.Info() != info {
		t.Errorf("the scanner returns\n%+v, want\n%+v", s.Info(), info)
	}
}

// hash is the SHA-256 that docs/formats.md defines.
func hash(messages []segmenttest.Message) (sum [32]byte) {
	h := sha256.New()
	for _, m := range messages {
		h.Write(binary.LittleEndian.AppendUint64(nil, m.Position))
		h.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(m.Data))))
		h.Write(m.Data)
	}
	return [32]byte(h.Sum(nil))
}

// A segment that begins in the middle of a log says what precedes it.
func TestMiddleOfLog(t *testing.T) {
	t.Parallel()
	log := segmenttest.New(40)
	before := segmenttest.New(17).Last
	b, info := segmenttest.Write(t, log.Messages[17:], 3)
	before.Position, before.Time = 0, 0
	if info.Before != before || info.Last != log.Last || info.First.Sequence != 18 || info.First.Position != log.Messages[17].Position {
		t.Errorf("%+v, want it to begin after %+v and to end with %+v", info, before, log.Last)
	}
	got, err := collect(open(t, b).Commits(30))
	must.Succeed(t, err)
	expect(t, got, log.Messages[29:])
}

func TestSearch(t *testing.T) {
	t.Parallel()
	log := segmenttest.New(60)
	for _, flush := range []int{0, 1, 2, 7} {
		b, info := segmenttest.Write(t, log.Messages[7:], flush)
		r := open(t, b)
		commits, err := collect(r.Commits(0))
		must.Succeed(t, err)
		for _, c := range commits {
			for revision := c.FirstRevision; revision <= c.Revision; revision++ {
				if got, err := r.AtRevision(revision); err != nil || got != c.Sequence {
					t.Errorf("flush %d: revision %d is in commit %d, %v; want %d", flush, revision, got, err, c.Sequence)
				}
			}
			for _, late := range []lifecycle.Time{0, 999} {
				if got, err := r.AtTime(c.Time + late); err != nil || got != c.Sequence {
					t.Errorf("flush %d: at time %d+%d there is commit %d, %v; want %d", flush, c.Time, late, got, err, c.Sequence)
				}
			}
		}
		for _, revision := range []uint64{0, info.Before.Revision, info.Last.Revision + 1} {
			if _, err := r.AtRevision(revision); !errors.Is(err, segment.ErrOutside) {
				t.Errorf("revision %d: %v", revision, err)
			}
		}
		if _, err := r.AtTime(commits[0].Time - 1); !errors.Is(err, segment.ErrOutside) {
			t.Errorf("a time before the first commit: %v", err)
		}
		if _, err := collect(r.Commits(log.Last.Sequence + 1)); !errors.Is(err, segment.ErrOutside) {
			t.Errorf("a sequence behind the last commit: %v", err)
		}
	}
}

// The commit that records a loss leaves out revisions, in the middle of a block and at the
// beginning of one. Without a new epoch none may.
func TestRevisionsLeftOut(t *testing.T) {
	t.Parallel()
	log := segmenttest.New(12)
	before := log.Last
	log.Lose(1 << 24)
	for range 5 {
		log.Add(2, "{}")
	}
	for _, flush := range []int{0, 1, 3, 12} {
		b, info := segmenttest.Write(t, log.Messages, flush)
		if info.Last != log.Last {
			t.Errorf("flush %d: it ends with %+v, want %+v", flush, info.Last, log.Last)
		}
		r := open(t, b)
		for _, from := range []uint64{0, before.Sequence, before.Sequence + 1, before.Sequence + 2} {
			got, err := collect(r.Commits(from))
			if err != nil {
				t.Fatalf("flush %d: from %d: %v", flush, from, err)
			}
			expect(t, got, log.Messages[max(from, 1)-1:])
		}
		if _, err := segment.Verify(bytes.NewReader(b)); err != nil {
			t.Errorf("flush %d: %v", flush, err)
		}
		if got, err := r.AtRevision(before.Revision + 1<<24 + 1); err != nil || got != before.Sequence+1 {
			t.Errorf("flush %d: the revision after the loss is in commit %d, %v", flush, got, err)
		}
		for _, lost := range []uint64{before.Revision + 1, before.Revision + 1<<24} {
			if got, err := r.AtRevision(lost); !errors.Is(err, segment.ErrOutside) {
				t.Errorf("flush %d: a lost revision is in commit %d, %v", flush, got, err)
			}
		}
	}
}

// The bytes are determined by the messages, and the hash also without the blocks.
func TestDeterministic(t *testing.T) {
	t.Parallel()
	log := segmenttest.New(20)
	for i := range 300 {
		log.Add(40, strings.Repeat(fmt.Sprint(i), 400))
	}
	first, info := segmenttest.Write(t, log.Messages, 0)
	for range 5 {
		if b, _ := segmenttest.Write(t, log.Messages, 0); !bytes.Equal(b, first) {
			t.Fatal("the same messages gave other bytes")
		}
	}
	divided, other := segmenttest.Write(t, log.Messages, 10)
	if bytes.Equal(divided, first) || other.Hash != info.Hash {
		t.Errorf("divided differently, the hash is %x, want %x", other.Hash, info.Hash)
	}
}

// A message that does not continue the segment changes nothing.
func TestWriterRefuses(t *testing.T) {
	t.Parallel()
	log := segmenttest.New(10)
	want, _ := segmenttest.Write(t, log.Messages[:6], 0)
	header := commitcodec.Header{
		RealmID: segmenttest.Realm, ID: [16]byte{9}, Previous: log.Last.Checksum, Epoch: 1, Time: log.Last.Time, Sequence: 11, Key: 1, FirstRevision: log.Last.Revision + 1,
	}
	next := segmenttest.New(5).Last
	header.Sequence, header.Previous, header.FirstRevision, header.Time = next.Sequence+1, next.Checksum, next.Revision+1, next.Time
	message := func(change func(*commitcodec.Header)) segmenttest.Message {
		h := header
		change(&h)
		return segmenttest.Message{Position: log.Messages[5].Position, Data: segmenttest.Seal(segmenttest.Header(h), 6)}
	}
	for name, m := range map[string]segmenttest.Message{
		"gap":         log.Messages[6],
		"repetition":  log.Messages[4],
		"not sealed":  {Position: 9, Data: []byte("hello")},
		"empty":       {Position: 9},
		"other realm": message(func(h *commitcodec.Header) { h.RealmID[0]++ }),
		"revision":    message(func(h *commitcodec.Header) { h.FirstRevision++ }),
		"checksum":    message(func(h *commitcodec.Header) { h.Previous++ }),
		"epoch":       message(func(h *commitcodec.Header) { h.Epoch = 0 }),
		"time":        message(func(h *commitcodec.Header) { h.Time-- }),
		"position":    {Position: log.Messages[4].Position, Data: log.Messages[5].Data},
		"too large":   {Position: 9, Data: make([]byte, segment.MaxMessage+1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			w, err := segment.NewWriter(&b)
			must.Succeed(t, err)
			for i, good := range log.Messages[:6] {
				if i == 5 {
					var refused *segment.SequenceError
					if err := w.Add(m.Position, m.Data); !errors.As(err, &refused) || refused.Position != m.Position {
						t.Errorf("error %v", err)
					}
				}
				must.Succeed(t, w.Add(good.Position, good.Data))
			}
			if w.Last() != segmenttest.New(6).Last {
				t.Errorf("the last commit is %+v", w.Last())
			}
			if _, err := w.Close(); err != nil || !bytes.Equal(b.Bytes(), want) {
				t.Errorf("closed with %v, and the bytes are equal: %v", err, bytes.Equal(b.Bytes(), want))
			}
			if err := w.Add(10, nil); err == nil {
				t.Error("a closed writer accepted a message")
			}
		})
	}
}

func TestWriterWithoutCommits(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w, err := segment.NewWriter(&b)
	must.Succeed(t, err)
	if _, err := w.Close(); !errors.Is(err, segment.ErrNoCommits) || b.Len() > 0 {
		t.Errorf("%v, and %d bytes were written", err, b.Len())
	}
}

// full is a disk that is full after some bytes.
type full struct{ room int }

var errFull = errors.New("no space left on device")

func (f *full) Write(b []byte) (int, error) {
	n := min(len(b), f.room)
	if f.room -= n; n < len(b) {
		return n, errFull
	}
	return n, nil
}

// A failure of the underlying writer is final: the segment is never continued behind a hole.
func TestWriterOnFullDisk(t *testing.T) {
	t.Parallel()
	log := segmenttest.New(10)
	w, err := segment.NewWriter(&full{room: 100})
	must.Succeed(t, err)
	for _, m := range log.Messages[:5] {
		must.Succeed(t, w.Add(m.Position, m.Data))
	}
	if err := w.Flush(); !errors.Is(err, errFull) {
		t.Errorf("flush: %v", err)
	}
	if err := w.Add(log.Messages[5].Position, log.Messages[5].Data); !errors.Is(err, errFull) {
		t.Errorf("add: %v", err)
	}
	if _, err := w.Close(); !errors.Is(err, errFull) {
		t.Errorf("close: %v", err)
	}
}
