package segment

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// Reader reads a segment that is complete. It is safe for concurrent use if the underlying
// io.ReaderAt is.
type Reader struct {
	in     io.ReaderAt
	size   int64
	header header
	footer footer
	index  []entry
}

// Open reads the header, the footer and the index of a segment of a size in bytes. If one
// of them is damaged, it reads the segment from the beginning to find out how much is
// good. The error is a DamagedError, a VersionError, or one of the underlying reader.
func Open(in io.ReaderAt, size int64) (*Reader, error) {
	r := &Reader{in: in, size: size}
	if err := r.open(); err != nil {
		return nil, r.diagnose(err)
	}
	return r, nil
}

func (r *Reader) open() error {
	b, err := r.at(0, int(min(r.size, int64(headerSize))))
	if err != nil {
		return err
	}
	if err := r.header.decode(b); err != nil {
		return err
	}
	if r.size < int64(headerSize+footerSize) {
		return errTruncated
	}
	end, err := r.at(r.size-int64(footerSize), footerSize)
	if err != nil {
		return err
	}
	f := &r.footer
	if !f.decode(end) || f.headerCRC != little.Uint32(b[headerSize-crcSize:]) {
		return errFooter
	}
	length := indexSize + int(f.blocks)*entrySize
	if f.index != uint64(r.size)-uint64(footerSize)-uint64(length) || f.index > uint64(r.size) {
		return errFooter
	}
	if b, err = r.at(int64(f.index), length); err != nil {
		return err
	}
	index, ok := decodeIndex(b)
	if !ok || len(index) != int(f.blocks) {
		return errIndex
	}
	r.index = index
	return r.checkIndex()
}

// checkIndex checks that the index is ascending, so that searches and sizes are right.
func (r *Reader) checkIndex() error {
	last := entry{offset: uint64(headerSize), sequence: r.header.sequence, revision: r.header.revision}
	for i, e := range r.index {
		switch {
		case i == 0 && (e.offset != last.offset || e.sequence != last.sequence || e.revision != last.revision):
			return errIndex
		case i > 0 && (e.offset < last.offset+uint64(blockHeaderSize) || e.position <= last.position || e.sequence <= last.sequence || e.revision < last.revision || e.time < last.time):
			return errIndex
		case e.position == 0 || e.offset+uint64(blockHeaderSize) > r.footer.index:
			return errIndex
		}
		last = e
	}
	if last.sequence > r.footer.last.Sequence || last.revision > r.footer.last.Revision {
		return errFooter
	}
	return nil
}

// diagnose returns the error for what is wrong, by reading the segment from its beginning.
func (r *Reader) diagnose(err error) error {
	var version *VersionError
	var failed readError
	switch {
	case errors.As(err, &failed):
		return fmt.Errorf("read segment: %w", failed.error)
	case errors.As(err, &version):
		return version
	}
	if _, found := Verify(io.NewSectionReader(r.in, 0, r.size)); found != nil {
		return found
	}
	return fmt.Errorf("read segment: %w; when it was read again, it was undamaged: suspect the storage", err)
}

// at reads n bytes at an offset.
func (r *Reader) at(offset int64, n int) ([]byte, error) {
	b := make([]byte, n)
	switch got, err := r.in.ReadAt(b, offset); {
	case got == n:
		return b, nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errTruncated
	default:
		return nil, readError{err}
	}
}

// Info describes the segment.
func (r *Reader) Info() Info { return infoOf(&r.header, &r.footer, r.size, r.index[0]) }

// Commits iterates over the commits from a sequence on. A sequence before the first means the
// first. If the last element is an error, it is one that Open documents, or wraps
// ErrOutside if the sequence is behind the last commit.
//
// The hash of the messages is not checked: see Verify.
func (r *Reader) Commits(from uint64) iter.Seq2[Commit, error] {
	return func(yield func(Commit, error) bool) {
		if from > r.footer.last.Sequence {
			yield(Commit{}, fmt.Errorf("commit %d: %w: its last commit is %d", from, ErrOutside, r.footer.last.Sequence))
			return
		}
		more := true
		err := r.visit(r.search(func(e entry) int { return cmp.Compare(e.sequence, from) }), func(c Commit) bool {
			if c.Sequence >= from {
				more = yield(c, nil)
			}
			return more
		})
		if err != nil && more {
			yield(Commit{}, r.diagnose(err))
		}
	}
}

// search returns the last block whose entry does not compare greater, or the first block.
func (r *Reader) search(compare func(entry) int) int {
	n, _ := slices.BinarySearchFunc(r.index, struct{}{}, func(e entry, _ struct{}) int {
		if compare(e) <= 0 {
			return -1
		}
		return 1
	})
	return max(n-1, 0)
}

// visit calls yield for the commits from a block on until yield returns false.
func (r *Reader) visit(block int, yield func(Commit) bool) error {
	c := r.header.chain()
	if e := r.index[block]; block > 0 {
		c.last, c.anyChecksum = Point{Sequence: e.sequence - 1, Position: e.position - 1, Revision: e.revision}, true
	}
	for i := block; i < len(r.index); i++ {
		more, err := r.block(&c, i, yield)
		if err != nil || !more {
			return err
		}
	}
	if c.last != r.footer.last {
		return errFooter
	}
	return nil
}

// block calls yield for the commits of a block.
func (r *Reader) block(c *chain, i int, yield func(Commit) bool) (more bool, err error) {
	e, end := r.index[i], r.footer.index
	if i+1 < len(r.index) {
		end = r.index[i+1].offset
	}
	if end-e.offset > uint64(blockHeaderSize+maxBlock) {
		return false, errIndex
	}
	b, err := r.at(int64(e.offset), int(end-e.offset))
	if err != nil {
		return false, err
	}
	var h blockHeader
	if !h.decode(b[:blockHeaderSize]) {
		return false, errBlockHeader
	}
	b = b[blockHeaderSize:]
	if int(h.stored) != len(b) || h.sequence != e.sequence || h.revision != e.revision {
		return false, errIndex
	}
	raw, err := h.open(b)
	if err != nil {
		return false, err
	}
	return h.visit(c, raw, yield)
}

// AtRevision returns the sequence of the commit that contains a revision. The error wraps
// ErrOutside if there is none.
func (r *Reader) AtRevision(revision uint64) (sequence uint64, err error) {
	if revision <= r.header.revision || revision > r.footer.last.Revision {
		return 0, fmt.Errorf("revision %d: %w: it has the revisions after %d up to %d", revision, ErrOutside, r.header.revision, r.footer.last.Revision)
	}
	block := r.search(func(e entry) int { return cmp.Compare(e.revision, revision-1) })
	lost := false
	err = r.visit(block, func(c Commit) bool {
		sequence, lost = c.Sequence, revision < c.FirstRevision
		return c.Revision < revision
	})
	switch {
	case err != nil:
		return 0, r.diagnose(err)
	case lost:
		return 0, fmt.Errorf("revision %d: %w: commit %d leaves it out, because commits before it were lost", revision, ErrOutside, sequence)
	}
	return sequence, nil
}

// AtTime returns the sequence of the last commit that is not later than a time. The error
// wraps ErrOutside if the first commit is later.
func (r *Reader) AtTime(t lifecycle.Time) (sequence uint64, err error) {
	if first := r.index[0].time; t < first {
		return 0, fmt.Errorf("time %d: %w: its first commit has time %d", t, ErrOutside, first)
	}
	block := r.search(func(e entry) int { return cmp.Compare(e.time, t) })
	err = r.visit(block, func(c Commit) bool {
		if c.Time <= t {
			sequence = c.Sequence
		}
		return c.Time <= t
	})
	if err != nil {
		return 0, r.diagnose(err)
	}
	return sequence, nil
}

// AtPosition returns the sequence of the first commit whose message is not before a
// position of the stream. The error wraps ErrOutside if all are before it.
func (r *Reader) AtPosition(position uint64) (sequence uint64, err error) {
	if last := r.footer.last.Position; position > last {
		return 0, fmt.Errorf("position %d: %w: its last commit is at %d", position, ErrOutside, last)
	}
	block := r.search(func(e entry) int { return cmp.Compare(e.position, position) })
	err = r.visit(block, func(c Commit) bool {
		sequence = c.Sequence
		return c.Position < position
	})
	if err != nil {
		return 0, r.diagnose(err)
	}
	return sequence, nil
}

// SeekRevision returns the position in the stream of the last commit whose first revision
// is not greater than a revision, and of the first commit if there is none.
func (r *Reader) SeekRevision(revision uint64) (position uint64, err error) {
	position = r.index[0].position
	if revision == 0 {
		return position, nil
	}
	block := r.search(func(e entry) int { return cmp.Compare(e.revision, revision-1) })
	err = r.visit(block, func(c Commit) bool {
		if c.FirstRevision > revision {
			return false
		}
		position = c.Position
		return true
	})
	if err != nil {
		return 0, r.diagnose(err)
	}
	return position, nil
}
