package segmenttest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/coppice-gc/coppice/internal/codec/commitcodec"
)

var little = binary.LittleEndian

// WithNewerCommit returns a segment of one block, the last commit of which is in the next version of the log
// format. docs/formats.md has the offsets.
func WithNewerCommit(tb testing.TB, file []byte) []byte {
	tb.Helper()
	const header, block, footer = 56, 44, 104
	end := bytes.Clone(file[len(file)-footer:])
	if n := little.Uint32(end[4:]); n != 1 {
		tb.Fatalf("the segment has %d blocks", n)
	}
	index := little.Uint64(end[16:])
	head, content := bytes.Clone(file[header:][:block]), file[header+block:index]
	if little.Uint32(head[4:]) == 1 {
		d, err := zstd.NewReader(nil)
		if err != nil {
			tb.Fatal(err)
		}
		defer d.Close()
		if content, err = d.DecodeAll(content, nil); err != nil {
			tb.Fatal(err)
		}
	}
	content = bytes.Clone(content)
	at := bytes.LastIndex(content, []byte{commitcodec.CommitFormat<<3&0x7f | 0x80, commitcodec.CommitFormat >> 4, commitcodec.BaseFormat})
	if at < 0 {
		tb.Fatal("the commits have no format")
	}
	content[at+2] = commitcodec.Format + 1
	little.PutUint32(head[4:], 0) // stored
	little.PutUint32(head[8:], uint32(len(content)))
	little.PutUint32(head[12:], uint32(len(content)))
	little.PutUint32(head[20:], crc32.ChecksumIEEE(content))
	little.PutUint32(head[40:], crc32.ChecksumIEEE(head[:40]))
	little.PutUint64(end[16:], uint64(header+block+len(content)))
	sum := sha256.Sum256(content)
	copy(end[64:], sum[:])
	little.PutUint32(end[100:], crc32.ChecksumIEEE(end[:100]))
	return bytes.Join([][]byte{file[:header], head, content, file[index : len(file)-footer], end}, nil)
}
