package segment_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/internal/segment/segmenttest"
)

// FuzzReader requires that no file makes a reader panic, and that a Reader and a Scanner agree: what one
// accepts, the other accepts with the same commits. mend computes the checksum of the
// header, the first block header and the footer again, so that what they claim is read.
func FuzzReader(f *testing.F) {
	log := segmenttest.New(9)
	for _, flush := range []int{0, 1, 4} {
		b, _ := segmenttest.Write(f, log.Messages, flush)
		f.Add(b, false)
		f.Add(b, true)
		f.Add(b[:len(b)/2], true)
	}
	f.Fuzz(func(t *testing.T, b []byte, mend bool) {
		if mend {
			b = slices.Clone(b)
			for _, part := range [][2]int{{0, 56}, {56, 100}, {len(b) - 104, len(b)}} {
				if part[0] >= 0 && part[1] <= len(b) {
					binary.LittleEndian.PutUint32(b[part[1]-4:], crc32.ChecksumIEEE(b[part[0]:part[1]-4]))
				}
			}
		}
		scanner := segment.NewScanner(bytes.NewReader(b))
		scanned, scanErr := collect(scanner.Commits())
		r, err := segment.Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			if scanErr == nil {
				t.Fatalf("the scanner accepts what the reader refuses: %v", err)
			}
			return
		}
		read, err := collect(r.Commits(0))
		if scanErr != nil {
			return // the reader does not check the hash of the messages
		}
		if err != nil || len(read) != len(scanned) || r.Info() != scanner.Info() {
			t.Fatalf("the reader returns %d commits of %d, %v", len(read), len(scanned), err)
		}
		for i, c := range read {
			if c.Point() != scanned[i].Point() || !bytes.Equal(c.Message, scanned[i].Message) {
				t.Fatalf("commit %d differs", i)
			}
		}
	})
}
