package segment

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// Version is the format version that this package writes, and the newest that it reads.
const Version = 1

// Limits of the format.
const (
	// MaxMessage is the size in bytes of the largest message, which is also the largest
	// that a NATS server can be configured to accept.
	MaxMessage = 64 << 20
	// blockSize is the size in bytes of the messages from which on a block is complete.
	blockSize = 1 << 20
	// maxBlock is the largest size of the messages of one block.
	maxBlock = blockSize + recordSize + MaxMessage
	// maxBlocks bounds the index to 40 MiB: a segment has at most about 1 TiB of messages.
	maxBlocks = 1 << 20
)

// The parts of a segment begin with these bytes. Those of the header are not text, so that
// a transfer that converts line ends is noticed.
const (
	magic      = "\x89CSEG\r\n\x1a"
	blockMagic = "CBLK"
	indexMagic = "CIDX"
	endMagic   = "CEND"
)

// Sizes in bytes of what has a fixed size. Numbers are little-endian.
const (
	headerSize      = len(magic) + 4 + 16 + 3*8 + crcSize
	blockHeaderSize = 4 + 5*4 + 2*8 + crcSize
	recordSize      = 8 + 4 // before each message
	entrySize       = 5 * 8
	indexSize       = 4 + 4 + crcSize // without entries
	footerSize      = 4 + 4 + 7*8 + 32 + 4 + crcSize
	crcSize         = 4
)

// Codecs of a block.
const (
	codecStored = 0
	codecZstd   = 1
)

var little = binary.LittleEndian

// appendCRC appends the CRC-32 (IEEE) of b[from:].
func appendCRC(b []byte, from int) []byte {
	return little.AppendUint32(b, crc32.ChecksumIEEE(b[from:]))
}

// checkCRC reports whether b ends with the CRC-32 of the bytes before.
func checkCRC(b []byte) bool {
	at := len(b) - crcSize
	return crc32.ChecksumIEEE(b[:at]) == little.Uint32(b[at:])
}

// header is what a segment begins with.
type header struct {
	realm    [16]byte
	sequence uint64 // of the first commit
	revision uint64 // before the first commit
	checksum uint64 // of the commit before the first, 0 if there is none
}

func (h *header) append(b []byte) []byte {
	from := len(b)
	b = little.AppendUint32(append(b, magic...), Version)
	b = append(b, h.realm[:]...)
	b = little.AppendUint64(b, h.sequence)
	b = little.AppendUint64(b, h.revision)
	b = little.AppendUint64(b, h.checksum)
	return appendCRC(b, from)
}

// decode decodes the first headerSize bytes of a segment, or fewer if there are no more.
// The error is ErrForeign, a VersionError, or says what is damaged.
func (h *header) decode(b []byte) error {
	if known := min(len(b), len(magic)); string(b[:known]) != magic[:known] || known == 0 {
		return ErrForeign
	}
	if len(b) < headerSize {
		return errTruncated
	}
	if v := little.Uint32(b[len(magic):]); v != Version {
		mended := slices.Clone(b)
		little.PutUint32(mended[len(magic):], Version)
		if checkCRC(mended) {
			return fmt.Errorf("the format version was changed from %d to %d", Version, v)
		}
		return &VersionError{Version: v}
	}
	if !checkCRC(b) {
		return errHeaderCRC
	}
	b = b[len(magic)+4:]
	copy(h.realm[:], b)
	h.sequence, h.revision, h.checksum = little.Uint64(b[16:]), little.Uint64(b[24:]), little.Uint64(b[32:])
	if h.sequence == 0 {
		return errHeaderCRC
	}
	return nil
}

// blockHeader is what a block begins with.
type blockHeader struct {
	codec    uint32
	raw      uint32 // size of the messages
	stored   uint32 // size of the messages as they are stored
	commits  uint32
	crc      uint32 // of the messages as they are stored
	sequence uint64 // of the first commit
	revision uint64 // before the first commit
}

func (h *blockHeader) append(b []byte) []byte {
	from := len(b)
	b = append(b, blockMagic...)
	for _, v := range []uint32{h.codec, h.raw, h.stored, h.commits, h.crc} {
		b = little.AppendUint32(b, v)
	}
	b = little.AppendUint64(b, h.sequence)
	b = little.AppendUint64(b, h.revision)
	return appendCRC(b, from)
}

// decode decodes blockHeaderSize bytes, and reports whether they are a block header.
func (h *blockHeader) decode(b []byte) bool {
	if string(b[:4]) != blockMagic || !checkCRC(b) {
		return false
	}
	for i, v := range []*uint32{&h.codec, &h.raw, &h.stored, &h.commits, &h.crc} {
		*v = little.Uint32(b[4+4*i:])
	}
	h.sequence, h.revision = little.Uint64(b[24:]), little.Uint64(b[32:])
	return h.raw <= maxBlock && h.stored <= h.raw && h.commits > 0
}

// entry is one of the index: the first commit of a block.
type entry struct {
	offset   uint64 // of the block in the segment
	position uint64
	sequence uint64
	revision uint64 // before the commit
	time     lifecycle.Time
}

func (e *entry) append(b []byte) []byte {
	for _, v := range []uint64{e.offset, e.position, e.sequence, e.revision, uint64(e.time)} {
		b = little.AppendUint64(b, v)
	}
	return b
}

func decodeEntry(b []byte) (e entry) {
	for i, v := range []*uint64{&e.offset, &e.position, &e.sequence, &e.revision} {
		*v = little.Uint64(b[8*i:])
	}
	e.time = lifecycle.Time(little.Uint64(b[32:]))
	return e
}

// appendIndex appends the index of blocks.
func appendIndex(b []byte, entries []entry) []byte {
	from := len(b)
	b = little.AppendUint32(append(b, indexMagic...), uint32(len(entries)))
	for i := range entries {
		b = entries[i].append(b)
	}
	return appendCRC(b, from)
}

// decodeIndex decodes a whole index.
func decodeIndex(b []byte) (entries []entry, ok bool) {
	if len(b) < indexSize || string(b[:4]) != indexMagic || !checkCRC(b) {
		return nil, false
	}
	n := int(little.Uint32(b[4:]))
	if n == 0 || len(b) != indexSize+n*entrySize {
		return nil, false
	}
	entries = make([]entry, n)
	for i := range entries {
		entries[i] = decodeEntry(b[8+i*entrySize:])
	}
	return entries, true
}

// footer is what a segment ends with.
type footer struct {
	blocks    uint32
	commits   uint64
	index     uint64 // the offset of the index
	last      Point
	hash      [32]byte // SHA-256 of the messages, with their positions and sizes
	headerCRC uint32   // binds the footer to the header
}

func (f *footer) append(b []byte) []byte {
	from := len(b)
	b = little.AppendUint32(append(b, endMagic...), f.blocks)
	for _, v := range []uint64{f.commits, f.index, f.last.Position, f.last.Sequence, f.last.Revision, f.last.Checksum, uint64(f.last.Time)} {
		b = little.AppendUint64(b, v)
	}
	b = append(b, f.hash[:]...)
	b = little.AppendUint32(b, f.headerCRC)
	return appendCRC(b, from)
}

// decode decodes footerSize bytes, and reports whether they are a footer.
func (f *footer) decode(b []byte) bool {
	if string(b[:4]) != endMagic || !checkCRC(b) {
		return false
	}
	f.blocks = little.Uint32(b[4:])
	for i, v := range []*uint64{&f.commits, &f.index, &f.last.Position, &f.last.Sequence, &f.last.Revision, &f.last.Checksum} {
		*v = little.Uint64(b[8+8*i:])
	}
	f.last.Time = lifecycle.Time(little.Uint64(b[56:]))
	copy(f.hash[:], b[64:])
	f.headerCRC = little.Uint32(b[96:])
	return f.blocks > 0 && f.blocks <= maxBlocks
}
