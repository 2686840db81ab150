package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/klauspost/compress/zstd"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Version is the format version that this package writes and reads.
const Version = 1

// The parts of a snapshot begin with these bytes.
const (
	magic      = "\x89CSNP\r\n\x1a"
	chunkMagic = "CROW"
	endMagic   = "CEND"
)

// Sizes in bytes. Numbers are little-endian.
const (
	headerSize      = len(magic) + 4 + state.ManifestSize + crcSize
	chunkHeaderSize = 4 + 6*4 + crcSize
	countSize       = 4 + 8
	footerSize      = 4 + 4 + 3*8 + 32 + 4 + crcSize // without counts
	crcSize         = 4

	// chunkSize is the size of the rows from which on a chunk is complete, and maxChunk the
	// largest size of the rows of a chunk, which may be a single one.
	chunkSize = 1 << 20
	maxChunk  = 256 << 20
	maxTables = 256
)

// Codecs of a chunk.
const (
	codecStored = 0
	codecZstd   = 1
)

// Sections of a snapshot, in their order.
const (
	sectionContent   = 0
	sectionPositions = 1
)

var little = binary.LittleEndian

// appendCRC appends the CRC-32 (IEEE) of b.
func appendCRC(b []byte) []byte { return little.AppendUint32(b, crc32.ChecksumIEEE(b)) }

// checkCRC reports whether b ends with the CRC-32 of the bytes before.
func checkCRC(b []byte) bool {
	at := len(b) - crcSize
	return crc32.ChecksumIEEE(b[:at]) == little.Uint32(b[at:])
}

func appendHeader(cp *coppicev1.Checkpoint) []byte {
	b := little.AppendUint32([]byte(magic), Version)
	return appendCRC(state.AppendManifest(b, cp))
}

// manifestOf returns the manifest in a header.
func manifestOf(header []byte) []byte {
	return header[len(magic)+4:][:state.ManifestSize]
}

// decodeHeader decodes a header, or what there is of it.
func decodeHeader(b []byte) (*coppicev1.Checkpoint, error) {
	if known := min(len(b), len(magic)); known == 0 || string(b[:known]) != magic[:known] {
		return nil, fmt.Errorf("%w: the file is not a snapshot, it begins with other bytes", ErrForeign)
	}
	if len(b) < headerSize {
		return nil, errTruncated
	}
	// A later version may have a header of another size, whose checksum is elsewhere.
	version := little.Uint32(b[len(magic):])
	if version != Version {
		mended := append([]byte(nil), b...)
		little.PutUint32(mended[len(magic):], Version)
		if checkCRC(mended) {
			return nil, fmt.Errorf("the format version was changed from %d to %d", Version, version)
		}
		return nil, &VersionError{What: "format", Version: version, Oldest: Version, Own: Version}
	}
	if !checkCRC(b) {
		return nil, errors.New("the checksum of the header is wrong")
	}
	cp, err := state.DecodeManifest(manifestOf(b))
	if errors.Is(err, state.ErrSchema) {
		return nil, &VersionError{What: "layout", Version: little.Uint32(manifestOf(b)), Oldest: state.OldestSchema, Own: state.Schema}
	}
	if err == nil && cp.GetSequence() == 0 {
		err = errors.New("the header names no commit")
	}
	return cp, err
}

// chunkHeader is what a chunk begins with.
type chunkHeader struct {
	section uint32
	codec   uint32
	raw     uint32 // size of the rows
	stored  uint32 // size of the rows as they are stored
	rows    uint32
	crc     uint32 // of the rows as they are stored
}

func (h *chunkHeader) fields() []*uint32 {
	return []*uint32{&h.section, &h.codec, &h.raw, &h.stored, &h.rows, &h.crc}
}

func (h *chunkHeader) append(b []byte) []byte {
	b = append(b, chunkMagic...)
	for _, v := range h.fields() {
		b = little.AppendUint32(b, *v)
	}
	return appendCRC(b)
}

// decode decodes chunkHeaderSize bytes, and reports whether they are the header of a chunk.
func (h *chunkHeader) decode(b []byte) bool {
	if string(b[:4]) != chunkMagic || !checkCRC(b) {
		return false
	}
	for i, v := range h.fields() {
		*v = little.Uint32(b[4+4*i:])
	}
	return h.raw <= maxChunk && h.stored <= h.raw && h.rows > 0 && h.section <= sectionPositions
}

// decoder is safe for concurrent use. It never allocates more than the size that a chunk
// header names.
var decoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxMemory(maxChunk))
})

// open returns the rows of a chunk. They may share the memory of stored or room.
func (h *chunkHeader) open(stored []byte, room []byte) ([]byte, error) {
	if crc32.ChecksumIEEE(stored) != h.crc {
		return nil, errors.New("the checksum of the chunk's rows is wrong")
	}
	switch h.codec {
	case codecStored:
		room = stored
	case codecZstd:
		d, err := decoder()
		if err != nil {
			return nil, err
		}
		if uint32(cap(room)) < h.raw {
			room = make([]byte, 0, h.raw)
		}
		if room, err = d.DecodeAll(stored, room[:0:h.raw]); err != nil {
			return nil, fmt.Errorf("the chunk cannot be decompressed: %w", err)
		}
	default:
		return nil, fmt.Errorf("the chunk has codec %d, which format version %d does not have", h.codec, Version)
	}
	if len(room) != int(h.raw) {
		return nil, fmt.Errorf("the chunk has %d bytes of rows, and its header says %d", len(room), h.raw)
	}
	return room, nil
}

// Count is the number of rows of a table.
type Count struct {
	Table byte // the first byte of its keys: see package state
	Rows  uint64
}

// footer is what a snapshot ends with.
type footer struct {
	counts    []Count // of the content, in the order of the tables
	chunks    uint64
	position  uint64 // of the last commit in the stream
	positions uint64 // rows of the other section
	hash      [32]byte
	headerCRC uint32 // binds the footer to the header
}

func (f *footer) append(b []byte) []byte {
	b = little.AppendUint32(append(b, endMagic...), uint32(len(f.counts)))
	for _, c := range f.counts {
		b = little.AppendUint32(b, uint32(c.Table))
		b = little.AppendUint64(b, c.Rows)
	}
	for _, v := range []uint64{f.chunks, f.position, f.positions} {
		b = little.AppendUint64(b, v)
	}
	b = append(b, f.hash[:]...)
	b = little.AppendUint32(b, f.headerCRC)
	return appendCRC(b)
}
