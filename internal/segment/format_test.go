package segment

import (
	"bytes"
	"errors"
	"hash/crc32"
	"runtime"
	"strings"
	"testing"
)

// A newer format is refused, with what to do, even though its header has another size.
func TestNewerVersion(t *testing.T) {
	t.Parallel()
	b := little.AppendUint32([]byte(magic), Version+1)
	b = append(b, make([]byte, 500)...)
	_, opened := Open(bytes.NewReader(b), int64(len(b)))
	_, verified := Verify(bytes.NewReader(b))
	for _, err := range []error{opened, verified} {
		var newer *VersionError
		if !errors.As(err, &newer) || newer.Version != Version+1 || !strings.Contains(err.Error(), "use the version of Coppice that wrote it") {
			t.Errorf("error %v", err)
		}
	}
}

// What a file claims does not make a reader allocate more than one block. The test does not
// run in parallel with others, whose allocations would count.
func TestMemoryIsBounded(t *testing.T) { //nolint:paralleltest // see above
	h := header{sequence: 1}
	claim := func(change func(*blockHeader)) []byte {
		block := blockHeader{raw: maxBlock, stored: maxBlock, commits: 1, sequence: 1, crc: crc32.ChecksumIEEE(nil)}
		change(&block)
		return block.append(h.append(nil))
	}
	index := little.AppendUint32(append(h.append(nil), indexMagic...), 1<<31)
	end := footer{blocks: maxBlocks, commits: 1, index: 60, headerCRC: little.Uint32(h.append(nil)[headerSize-crcSize:])}
	for name, b := range map[string][]byte{
		"large block that is missing": claim(func(*blockHeader) {}),
		"block that is too large":     claim(func(b *blockHeader) { b.raw, b.stored = 1<<31, 1<<31 }),
		"large compressed block":      append(claim(func(b *blockHeader) { b.codec, b.stored = codecZstd, 0 }), make([]byte, 100)...),
		"large index":                 append(index, make([]byte, 100)...),
		"footer with a large index":   end.append(h.append(nil)),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, opened := Open(bytes.NewReader(b), int64(len(b)))
		_, verified := Verify(bytes.NewReader(b))
		runtime.ReadMemStats(&after)
		if opened == nil || verified == nil {
			t.Errorf("%s: %v, %v", name, opened, verified)
		}
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 4*maxBlock {
			t.Errorf("%s: %d bytes were allocated", name, allocated)
		}
	}
}

// The sizes of docs/formats.md.
func TestSizes(t *testing.T) {
	t.Parallel()
	for name, size := range map[string][2]int{
		"header":       {headerSize, len((&header{}).append(nil))},
		"block header": {blockHeaderSize, len((&blockHeader{}).append(nil))},
		"entry":        {entrySize, len((&entry{}).append(nil))},
		"index":        {indexSize, len(appendIndex(nil, nil))},
		"footer":       {footerSize, len((&footer{}).append(nil))},
	} {
		if size[0] != size[1] {
			t.Errorf("%s: %d bytes, declared as %d", name, size[1], size[0])
		}
	}
	if headerSize != 56 || blockHeaderSize != 44 || entrySize != 40 || footerSize != 104 {
		t.Errorf("sizes: %d %d %d %d", headerSize, blockHeaderSize, entrySize, footerSize)
	}
}
