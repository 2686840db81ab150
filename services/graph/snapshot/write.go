package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/zstd"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Info describes a snapshot.
type Info struct {
	// Checkpoint is the last commit. The time at which the stream was created is not in it.
	Checkpoint *coppicev1.Checkpoint
	// Hash is the SHA-256 of the content: see state.Snapshot.ContentHash.
	Hash   [sha256.Size]byte
	Counts []Count // in the order of the tables
	// Content is the size of the uncompressed content and Size that of the file, in bytes.
	Content, Size int64
}

// WriteOptions has what a caller of Write may set.
type WriteOptions struct {
	// Pace is called before each chunk is compressed and written, with the number of
	// bytes of its rows, and may wait to limit the rate. An error of it ends Write.
	Pace func(ctx context.Context, bytes int) error
}

// Write writes a snapshot of the state to w. It takes no lock of the state; the caller closes
// snap. If Write fails, what it has written is not a snapshot. The error wraps
// state.ErrNoContent for a state without commits.
func Write(ctx context.Context, w io.Writer, snap *state.Snapshot, o WriteOptions) (Info, error) {
	if o.Pace == nil {
		o.Pace = func(ctx context.Context, _ int) error { return ctx.Err() }
	}
	cp := snap.Checkpoint()
	if cp.GetSequence() == 0 {
		return Info{}, fmt.Errorf("snapshot: %w", state.ErrNoContent)
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithWindowSize(chunkSize))
	if err != nil {
		return Info{}, err
	}
	c := &chunks{w: w, pace: func(n int) error { return o.Pace(ctx, n) }, encoder: encoder, hash: sha256.New()}
	snap.Until(ctx)
	if err := c.write(snap, cp); err != nil {
		return Info{}, fmt.Errorf("snapshot: %w", err)
	}
	return Info{Checkpoint: withoutStream(cp), Hash: c.f.hash, Counts: c.f.counts, Content: c.content, Size: c.size}, nil
}

// withoutStream returns the checkpoint without the time at which the stream was created.
func withoutStream(cp *coppicev1.Checkpoint) *coppicev1.Checkpoint {
	decoded, err := state.DecodeManifest(state.AppendManifest(nil, cp))
	if err != nil {
		panic(err) // it was encoded by this build
	}
	decoded.Position = cp.GetPosition()
	return decoded
}

// chunks writes the parts of a snapshot.
type chunks struct {
	w       io.Writer
	pace    func(int) error
	encoder *zstd.Encoder
	hash    hash.Hash // of the content
	f       footer
	content int64
	size    int64

	section uint32
	rows    uint32 // in the chunk
	raw     []byte
	out     []byte
}

func (c *chunks) write(snap *state.Snapshot, cp *coppicev1.Checkpoint) error {
	header := appendHeader(cp)
	c.f.headerCRC = crc32.ChecksumIEEE(header)
	c.f.position = cp.GetPosition()
	c.add(manifestOf(header))
	if err := c.put(header); err != nil {
		return err
	}
	err := snap.EachRow(func(key, value []byte) error {
		if n := len(c.f.counts); n == 0 || c.f.counts[n-1].Table != key[0] {
			c.f.counts = append(c.f.counts, Count{Table: key[0]})
		}
		c.f.counts[len(c.f.counts)-1].Rows++
		return c.row(key, value)
	})
	if err == nil {
		err = c.end()
	}
	if err != nil {
		return err
	}
	c.section = sectionPositions
	if err := snap.EachPosition(func(key, value []byte) error {
		c.f.positions++
		return c.row(key, value)
	}); err != nil {
		return err
	}
	if err := c.end(); err != nil {
		return err
	}
	copy(c.f.hash[:], c.hash.Sum(nil))
	return c.put(c.f.append(nil))
}

// add adds bytes to the content.
func (c *chunks) add(b []byte) {
	_, _ = c.hash.Write(b) // never fails
	c.content += int64(len(b))
}

// row adds a row to the chunk.
func (c *chunks) row(key, value []byte) error {
	if size := state.RowHeader + len(key) + len(value); len(c.raw)+size > maxChunk {
		if err := c.end(); err != nil {
			return err
		}
		if size > maxChunk {
			return fmt.Errorf("the row with key %x has %d bytes, and the format allows %d", key, size, maxChunk)
		}
	}
	c.raw = state.AppendRow(c.raw, key, value)
	if c.rows++; len(c.raw) >= chunkSize {
		return c.end()
	}
	return nil
}

// end writes the chunk, unless it is empty.
func (c *chunks) end() error {
	if c.rows == 0 {
		return nil
	}
	if err := c.pace(len(c.raw)); err != nil {
		return err
	}
	if c.section == sectionContent {
		c.add(c.raw)
	}
	h := chunkHeader{section: c.section, codec: codecZstd, raw: uint32(len(c.raw)), rows: c.rows}
	c.out = c.encoder.EncodeAll(c.raw, c.out[:0])
	stored := c.out
	if len(stored) >= len(c.raw) {
		h.codec, stored = codecStored, c.raw
	}
	h.stored, h.crc = uint32(len(stored)), crc32.ChecksumIEEE(stored)
	c.f.chunks++
	err := c.put(h.append(nil))
	if err == nil {
		err = c.put(stored)
	}
	c.rows, c.raw = 0, c.raw[:0]
	return err
}

func (c *chunks) put(b []byte) error {
	n, err := io.Copy(c.w, bytes.NewReader(b))
	c.size += n
	return err
}
