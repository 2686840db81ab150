package segment

import (
	"errors"
	"io"
	"slices"
)

// Recover is Open for a segment that may be damaged, or that was not closed: it reads the
// segment from its beginning, and returns a reader of the complete blocks before the
// damage, nil if there are none. The error says why the rest cannot be used; it is nil for
// a segment without damage, and otherwise one of Scanner.Commits.
func Recover(in io.ReaderAt, size int64) (*Reader, error) {
	s, err := scanAll(in, size)
	return s.kept(in, size), err
}

// kept returns a reader of the complete blocks that were scanned, nil if there are none.
func (s *Scanner) kept(in io.ReaderAt, size int64) *Reader {
	n := s.footer.blocks
	if n == 0 {
		return nil
	}
	r := &Reader{in: in, size: size, header: s.header, footer: s.footer, index: slices.Clip(s.index[:n])}
	r.footer.index, r.footer.last = uint64(s.complete.end), s.complete.last
	s.hash.Sum(r.footer.hash[:0])
	return r
}

// Resumed is a segment that is continued.
type Resumed struct {
	*Writer
	// Kept reads the complete blocks of the segment, which are kept; nil if there are none.
	Kept *Reader
	// End is the size in bytes of what is kept. The caller must cut the file there before
	// the first write, and the writes go there.
	End int64
}

// Resume continues a segment, closed or not, with writes to out. The error is that of
// Scanner.Commits for a segment that is damaged otherwise than by its missing end.
func Resume(in io.ReaderAt, size int64, out io.Writer) (*Resumed, error) {
	w, err := NewWriter(out)
	if err != nil || size == 0 {
		return &Resumed{Writer: w}, err
	}
	s, err := scanAll(in, size)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	r := s.kept(in, size)
	if r == nil {
		return &Resumed{Writer: w}, nil
	}
	w.hash, w.chain, w.offset = s.hash, s.complete.chain, s.complete.end
	w.header, w.index = s.header, r.index
	w.footer = footer{headerCRC: s.footer.headerCRC, commits: s.footer.commits}
	return &Resumed{Writer: w, Kept: r, End: s.complete.end}, nil
}

// scanAll returns a scanner that has read a segment up to its end or to the first damage.
func scanAll(in io.ReaderAt, size int64) (s *Scanner, err error) {
	s = NewScanner(io.NewSectionReader(in, 0, size))
	for _, err = range s.Commits() {
	}
	return s, err
}
