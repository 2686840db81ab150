package segment

import (
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// decoder is safe for concurrent use. It never allocates more than the size that a block
// header names.
var decoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxMemory(maxBlock))
})

// open returns the messages of a block, with their positions and sizes. They may share the
// memory of stored.
func (h *blockHeader) open(stored []byte) (raw []byte, err error) {
	if crc32.ChecksumIEEE(stored) != h.crc {
		return nil, errors.New("the checksum of the block's content is wrong")
	}
	switch h.codec {
	case codecStored:
		raw = stored
	case codecZstd:
		d, err := decoder()
		if err != nil {
			return nil, err
		}
		if raw, err = d.DecodeAll(stored, make([]byte, 0, h.raw)); err != nil {
			return nil, fmt.Errorf("the block cannot be decompressed: %w", err)
		}
	default:
		return nil, fmt.Errorf("the block has codec %d, which format version %d does not have", h.codec, Version)
	}
	if len(raw) != int(h.raw) {
		return nil, fmt.Errorf("the block has %d bytes of messages, and its header says %d", len(raw), h.raw)
	}
	return raw, nil
}

// visit calls yield for the commits of an opened block until yield returns false, and
// moves the chain behind those that it has visited.
func (h *blockHeader) visit(c *chain, raw []byte, yield func(Commit) bool) (more bool, err error) {
	if h.sequence != c.last.Sequence+1 || h.revision != c.last.Revision && (c.epoch == 0 || h.revision < c.last.Revision) {
		return false, fmt.Errorf("the block begins with sequence %d after revision %d, and sequence %d after revision %d comes next",
			h.sequence, h.revision, c.last.Sequence+1, c.last.Revision)
	}
	for n := range h.commits {
		if len(raw) < recordSize {
			return false, fmt.Errorf("the block has %d commits, and its header says %d", n, h.commits)
		}
		position, size := little.Uint64(raw), little.Uint32(raw[8:])
		raw = raw[recordSize:]
		if size > MaxMessage || int(size) > len(raw) {
			return false, fmt.Errorf("commit %d of the block has %d bytes, more than the block", n+1, size)
		}
		commit, err := c.open(position, raw[:size:size])
		if err != nil {
			return false, fmt.Errorf("commit %d of the block: %w", n+1, err)
		}
		if n == 0 && commit.FirstRevision-1 != h.revision {
			return false, fmt.Errorf("the first revision of the block is %d, and its header says that it follows %d", commit.FirstRevision, h.revision)
		}
		raw = raw[size:]
		c.follow(&commit)
		if !yield(commit) {
			return false, nil
		}
	}
	if len(raw) > 0 {
		return false, fmt.Errorf("the block has %d bytes behind its %d commits", len(raw), h.commits)
	}
	return true, nil
}
