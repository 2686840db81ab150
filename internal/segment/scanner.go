package segment

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
)

// Scanner reads a segment from beginning to end and checks everything in it. It is for one
// goroutine.
type Scanner struct {
	in     io.Reader
	offset int64 // of the part that is read
	read   int64 // how much has been read
	chain  chain
	hash   hash.Hash
	header header
	footer footer // as it must be
	index  []entry
	info   Info
	// complete is the chain behind the last complete block, which ends at an offset.
	complete struct {
		chain
		end int64
	}
}

// NewScanner returns a scanner of a segment that r contains from its current position to
// its end.
func NewScanner(r io.Reader) *Scanner { return &Scanner{in: r, hash: sha256.New()} }

// Verify reads a segment to its end and checks everything in it, except the authentication
// codes of the commits. Its errors are those of Scanner.Commits.
func Verify(r io.Reader) (Info, error) {
	s := NewScanner(r)
	for _, err := range s.Commits() {
		if err != nil {
			return Info{}, err
		}
	}
	return s.Info(), nil
}

// Commits iterates over the commits, once. If the segment cannot be read to its end, the
// last element is an error: a DamagedError, a VersionError, or one of the underlying
// reader. The commits before it are good. If the segment was not closed, all commits that were
// flushed are returned first.
func (s *Scanner) Commits() iter.Seq2[Commit, error] {
	return func(yield func(Commit, error) bool) {
		more := true
		err := s.scan(func(c Commit) bool {
			more = yield(c, nil)
			return more
		})
		if err != nil && more {
			yield(Commit{}, s.wrap(err))
		}
	}
}

// Info describes the segment after all commits have been read. Before, it is zero.
func (s *Scanner) Info() Info { return s.info }

// readError is a failure of the underlying reader.
type readError struct{ error }

// wrap returns the error for what is wrong at the current part.
func (s *Scanner) wrap(err error) error {
	var failed readError
	var version *VersionError
	switch {
	case errors.As(err, &failed):
		return fmt.Errorf("read segment at byte %d: %w", s.read, failed.error)
	case errors.As(err, &version):
		return version
	}
	d := &DamagedError{Offset: s.offset, Err: err}
	if errors.Is(err, errTruncated) {
		d.Offset = s.read
	}
	if s.chain.last.Position > 0 {
		d.Good = s.chain.last
	}
	return d
}

// scan calls yield for the commits until yield returns false.
func (s *Scanner) scan(yield func(Commit) bool) error {
	if err := s.begin(); err != nil {
		return err
	}
	for {
		s.offset = s.read
		s.complete.chain, s.complete.end = s.chain, s.offset
		start, err := s.next(len(blockMagic))
		if err != nil {
			return err
		}
		switch string(start) {
		case blockMagic:
			if more, err := s.block(start, yield); err != nil || !more {
				return err
			}
		case indexMagic:
			return s.end(start)
		default:
			return errors.New("neither a block nor the index begins here")
		}
	}
}

func (s *Scanner) begin() error {
	b, err := s.next(headerSize)
	if err != nil && !errors.Is(err, errTruncated) {
		return err
	}
	if err := s.header.decode(b); err != nil {
		return err
	}
	s.footer.headerCRC = little.Uint32(b[headerSize-crcSize:])
	s.chain = s.header.chain()
	return nil
}

// chain returns the chain before the first commit.
func (h *header) chain() chain {
	return chain{begun: true, realm: h.realm, last: Point{Sequence: h.sequence - 1, Revision: h.revision, Checksum: h.checksum}}
}

// block reads a block, which begins with start.
func (s *Scanner) block(start []byte, yield func(Commit) bool) (more bool, err error) {
	rest, err := s.next(blockHeaderSize - len(start))
	if err != nil {
		return false, err
	}
	var h blockHeader
	if !h.decode(append(start, rest...)) {
		return false, errBlockHeader
	}
	if s.footer.blocks == maxBlocks {
		return false, fmt.Errorf("it has more than %d blocks", maxBlocks)
	}
	stored, err := s.next(int(h.stored))
	if err != nil {
		return false, err
	}
	raw, err := h.open(stored)
	if err != nil {
		return false, err
	}
	first := true
	more, err = h.visit(&s.chain, raw, func(c Commit) bool {
		if first {
			s.index = append(s.index, entry{offset: uint64(s.offset), position: c.Position, sequence: c.Sequence, revision: c.FirstRevision - 1, time: c.Time})
			first = false
		}
		return yield(c)
	})
	if err != nil {
		return false, err
	}
	s.hash.Write(raw)
	s.footer.blocks++
	s.footer.commits += uint64(h.commits)
	return more, nil
}

var errBlockHeader = errors.New("the checksum of the block's header is wrong")

// end reads the index, which begins with start, and what follows.
func (s *Scanner) end(start []byte) error {
	want := appendIndex(nil, s.index)
	rest, err := s.next(len(want) - len(start))
	if err != nil {
		return err
	}
	if len(s.index) == 0 || !bytes.Equal(rest, want[len(start):]) {
		return errIndex
	}
	s.footer.index, s.footer.last = uint64(s.offset), s.chain.last
	s.hash.Sum(s.footer.hash[:0])
	s.offset = s.read
	b, err := s.next(footerSize)
	if err != nil {
		return err
	}
	if want := s.footer.append(nil); !bytes.Equal(b, want) {
		return errFooter
	}
	s.offset = s.read
	if n, err := io.ReadFull(s.in, make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		if n == 0 {
			return readError{err}
		}
		return errors.New("something follows the end of the segment")
	}
	s.info = infoOf(&s.header, &s.footer, s.read, s.index[0])
	return nil
}

var (
	errIndex  = errors.New("the index is not that of the blocks before it")
	errFooter = errors.New("the footer is not that of the blocks before it")
)

// chunk is how much is allocated before it is known that the segment has as much.
const chunk = 1 << 20

// next reads n bytes into memory of its own. If the segment ends before, the error is
// errTruncated, and b is what there is.
func (s *Scanner) next(n int) (b []byte, err error) {
	for len(b) < n && err == nil {
		from := len(b)
		b = append(b, make([]byte, min(n-from, max(chunk, from)))...)
		var got int
		got, err = io.ReadFull(s.in, b[from:])
		s.read += int64(got)
		b = b[:from+got]
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return b, errTruncated
	case err != nil:
		return nil, readError{err}
	}
	return b, nil
}
