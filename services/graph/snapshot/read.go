package snapshot

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"slices"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Verify reads a whole snapshot and checks it. The error is a DamagedError, a VersionError, or
// a ReadError, or that of ctx.
func Verify(ctx context.Context, in io.Reader) (Info, error) {
	r, err := newReader(in)
	if err != nil {
		return Info{}, err
	}
	return r.each(ctx, func(_, _ []byte) error { return nil })
}

// reader reads a snapshot from beginning to end.
type reader struct {
	in        *bufio.Reader
	at        int64 // offset of what is read next
	headerCRC uint32
	cp        *coppicev1.Checkpoint
	hash      hash.Hash
	content   int64

	f       footer
	section uint32
	last    []byte // key
	stored  []byte
	room    []byte
}

// newReader reads the header.
func newReader(in io.Reader) (*reader, error) {
	r := &reader{in: bufio.NewReaderSize(in, 256<<10), hash: sha256.New()}
	b := make([]byte, headerSize)
	n, err := io.ReadFull(r.in, b)
	if err != nil && !isEnd(err) {
		return nil, &ReadError{err}
	}
	if r.cp, err = decodeHeader(b[:n]); err != nil {
		var version *VersionError
		if errors.As(err, &version) {
			return nil, err
		}
		if errors.Is(err, errTruncated) {
			r.at = int64(n)
		}
		return nil, r.damaged(err)
	}
	r.at = int64(n)
	r.headerCRC = crc32.ChecksumIEEE(b)
	r.add(manifestOf(b))
	return r, nil
}

func (r *reader) add(b []byte) {
	_, _ = r.hash.Write(b) // never fails
	r.content += int64(len(b))
}

func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

func (r *reader) damaged(err error) error { return &DamagedError{Offset: r.at, Err: err} }

// fill reads b, which begins at a distance in bytes behind the part at r.at.
func (r *reader) fill(b []byte, behind int) error {
	n, err := io.ReadFull(r.in, b)
	if isEnd(err) {
		return &DamagedError{Offset: r.at + int64(behind+n), Err: errTruncated}
	}
	if err != nil {
		return &ReadError{err}
	}
	return nil
}

// each calls visit for all rows: those of the content in the order of their keys, then the
// positions. What it has visited is good only if it returns nil.
func (r *reader) each(ctx context.Context, visit func(key, value []byte) error) (Info, error) {
	head := make([]byte, chunkHeaderSize)
	for {
		if err := ctx.Err(); err != nil {
			return Info{}, err
		}
		if err := r.fill(head[:4], 0); err != nil {
			return Info{}, err
		}
		switch string(head[:4]) {
		case endMagic:
			return r.end()
		case chunkMagic:
		default:
			return Info{}, r.damaged(errors.New("neither a chunk nor the footer begins here"))
		}
		if err := r.fill(head[4:], 4); err != nil {
			return Info{}, err
		}
		if err := r.chunk(head, visit); err != nil {
			return Info{}, err
		}
	}
}

// chunk reads the chunk with a header.
func (r *reader) chunk(head []byte, visit func(key, value []byte) error) error {
	var h chunkHeader
	if !h.decode(head) {
		return r.damaged(errors.New("the header of the chunk is damaged"))
	}
	if h.section < r.section {
		return r.damaged(errors.New("the chunk belongs before the chunks that precede it"))
	}
	if h.section > r.section {
		r.section, r.last = h.section, r.last[:0]
	}
	if uint32(cap(r.stored)) < h.stored {
		r.stored = make([]byte, h.stored)
	}
	r.stored = r.stored[:h.stored]
	if err := r.fill(r.stored, len(head)); err != nil {
		return err
	}
	raw, err := h.open(r.stored, r.room)
	if err != nil {
		return r.damaged(err)
	}
	if h.codec == codecZstd {
		r.room = raw
	}
	if h.section == sectionContent {
		r.add(raw)
	}
	for n := range h.rows {
		key, value, rest, err := state.CutRow(raw)
		if err != nil {
			return r.damaged(fmt.Errorf("row %d of the chunk: %w", n+1, err))
		}
		if bytes.Compare(r.last, key) >= 0 {
			return r.damaged(fmt.Errorf("row %d of the chunk: its key is not after the one before", n+1))
		}
		r.count(key[0])
		if err := visit(key, value); err != nil {
			return err
		}
		r.last = append(r.last[:0], key...)
		raw = rest
	}
	if len(raw) > 0 {
		return r.damaged(fmt.Errorf("the chunk has %d bytes behind its %d rows", len(raw), h.rows))
	}
	r.f.chunks++
	r.at += int64(len(head)) + int64(h.stored)
	return nil
}

// count counts a row of a table.
func (r *reader) count(table byte) {
	if r.section == sectionPositions {
		r.f.positions++
		return
	}
	if n := len(r.f.counts); n == 0 || r.f.counts[n-1].Table != table {
		r.f.counts = append(r.f.counts, Count{Table: table})
	}
	r.f.counts[len(r.f.counts)-1].Rows++
}

// end reads the footer, whose magic has been read, and compares it with what precedes it.
func (r *reader) end() (Info, error) {
	b := append(make([]byte, 0, 64), endMagic...)
	more := func(n int) error {
		from := len(b)
		b = append(b, make([]byte, n)...)
		return r.fill(b[from:], from)
	}
	if err := more(4); err != nil {
		return Info{}, err
	}
	tables := little.Uint32(b[4:])
	if tables > maxTables {
		return Info{}, r.damaged(errors.New("the footer is damaged"))
	}
	if err := more(footerSize - 8 + int(tables)*countSize); err != nil {
		return Info{}, err
	}
	if !checkCRC(b) {
		return Info{}, r.damaged(errors.New("the checksum of the footer is wrong"))
	}
	r.f.position = little.Uint64(b[8+int(tables)*countSize+8:])
	r.f.headerCRC = r.headerCRC
	copy(r.f.hash[:], r.hash.Sum(nil))
	if !bytes.Equal(r.f.append(nil), b) {
		return Info{}, r.damaged(errors.New("the footer is not that of the rows before it"))
	}
	r.at += int64(len(b))
	switch _, err := r.in.ReadByte(); {
	case err == nil:
		return Info{}, r.damaged(errors.New("the file goes on behind the footer"))
	case !isEnd(err):
		return Info{}, &ReadError{err}
	}
	r.cp.Position = r.f.position
	return Info{Checkpoint: r.cp, Hash: r.f.hash, Counts: slices.Clone(r.f.counts), Content: r.content, Size: r.at}, nil
}
