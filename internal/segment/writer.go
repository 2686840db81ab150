package segment

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Writer writes a segment. It is not safe for concurrent use.
type Writer struct {
	out     io.Writer
	encoder *zstd.Encoder
	hash    hash.Hash
	chain   chain
	err     error // of out, or ErrClosed

	offset  int64
	header  header
	footer  footer
	index   []entry
	block   blockHeader
	first   entry // of the block
	records []byte
	buffer  []byte
}

// errClosed is returned by methods of a writer that is closed.
var errClosed = errors.New("the segment is closed")

// NewWriter returns a writer of a segment. It writes to out in large pieces, each of which
// is complete blocks, and never seeks.
func NewWriter(out io.Writer) (*Writer, error) {
	// The result must not depend on how goroutines are scheduled.
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, err
	}
	return &Writer{out: out, encoder: encoder, hash: sha256.New()}, nil
}

// Add adds the message at a position of the log's stream. The message must be a commit of
// the realm: Keys.Check and Chain.Skips of package eventlog refuse others. The first one
// determines where the segment begins. Add returns a SequenceError for a message that does
// not continue the segment, and ErrFull; after both the writer can be used further. Any other error
// is one of the underlying writer, and final. Add does not retain the message.
func (w *Writer) Add(position uint64, message []byte) error {
	switch {
	case w.err != nil:
		return w.err
	case len(message) > MaxMessage:
		return &SequenceError{Position: position, What: fmt.Sprintf("it has %d bytes, more than %d", len(message), MaxMessage)}
	case len(w.index) == maxBlocks:
		return ErrFull
	}
	c, err := w.chain.open(position, message)
	if err != nil {
		return &SequenceError{Position: position, What: err.Error()}
	}
	before := c.FirstRevision - 1
	if !w.chain.begun {
		w.header = header{realm: c.RealmID, sequence: c.Sequence, revision: before, checksum: c.Previous}
	}
	if len(w.records) == 0 {
		w.block = blockHeader{sequence: c.Sequence, revision: before}
		w.first = entry{position: position, sequence: c.Sequence, revision: before, time: c.Time}
	}
	w.records = little.AppendUint64(w.records, position)
	w.records = little.AppendUint32(w.records, uint32(len(message)))
	w.records = append(w.records, message...)
	w.block.commits++
	w.chain.follow(&c)
	if len(w.records) >= blockSize {
		return w.Flush()
	}
	return nil
}

// Last returns the last commit that was added, zero if there is none.
func (w *Writer) Last() Point { return w.chain.last }

// Blocks returns how many blocks have been written. A segment has at most 1,048,576.
func (w *Writer) Blocks() int { return len(w.index) }

// Size returns how many bytes have been written.
func (w *Writer) Size() int64 { return w.offset }

// Flush writes the messages that have not been written, as a block of their own. Frequent
// calls make the segment larger.
func (w *Writer) Flush() error {
	if w.err != nil || len(w.records) == 0 {
		return w.err
	}
	w.hash.Write(w.records)
	stored, codec := w.encoder.EncodeAll(w.records, nil), uint32(codecZstd)
	if len(stored) >= len(w.records) {
		stored, codec = w.records, codecStored
	}
	w.block.codec, w.block.raw, w.block.stored, w.block.crc = codec, uint32(len(w.records)), uint32(len(stored)), crc32.ChecksumIEEE(stored)

	b := w.buffer[:0]
	if w.offset == 0 {
		b = w.header.append(b)
		w.footer.headerCRC = little.Uint32(b[len(b)-crcSize:])
	}
	w.first.offset = uint64(w.offset) + uint64(len(b))
	b = append(w.block.append(b), stored...)
	w.index = append(w.index, w.first)
	w.footer.commits += uint64(w.block.commits)
	w.buffer, w.records = reuse(b), reuse(w.records)
	return w.write(b)
}

// retained is the maximum size in bytes of a buffer that is used again.
const retained = 4 << 20

func reuse(b []byte) []byte {
	if cap(b) > retained {
		return nil
	}
	return b[:0]
}

func (w *Writer) write(b []byte) error {
	n, err := w.out.Write(b)
	w.offset += int64(n)
	w.err = err
	return err
}

// Close completes the segment with its index and footer. It does not close the underlying
// writer. A segment that is not closed is truncated: a Scanner reads the commits up to
// the last Flush, and then returns an error.
func (w *Writer) Close() (Info, error) {
	if !w.chain.begun && w.err == nil {
		return Info{}, ErrNoCommits
	}
	if err := w.Flush(); err != nil {
		return Info{}, err
	}
	w.footer.blocks, w.footer.index, w.footer.last = uint32(len(w.index)), uint64(w.offset), w.chain.last
	w.hash.Sum(w.footer.hash[:0])
	if err := w.write(w.footer.append(appendIndex(nil, w.index))); err != nil {
		return Info{}, err
	}
	w.err = errClosed
	return infoOf(&w.header, &w.footer, w.offset, w.index[0]), w.encoder.Close()
}

// Info describes a segment.
type Info struct {
	Version uint32
	RealmID [16]byte
	// Before is the place before the first commit. Its position and time are unknown.
	Before Point
	First  struct {
		Sequence, Position uint64
		Time               int64 // Unix microseconds
	}
	Last    Point
	Commits uint64
	Blocks  int
	Size    int64 // in bytes
	// Hash is the SHA-256 of the messages with their positions and sizes. It does not
	// depend on how they are compressed or divided into blocks.
	Hash [32]byte
}

func infoOf(h *header, f *footer, size int64, first entry) Info {
	i := Info{
		Version: Version, RealmID: h.realm,
		Before: Point{Sequence: h.sequence - 1, Revision: h.revision, Checksum: h.checksum},
		Last:   f.last, Commits: f.commits, Blocks: int(f.blocks), Size: size, Hash: f.hash,
	}
	i.First.Sequence, i.First.Position, i.First.Time = h.sequence, first.position, int64(first.time)
	return i
}
