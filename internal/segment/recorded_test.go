package segment_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/coppice-gc/coppice/internal/codec/commitcodec"
	"github.com/coppice-gc/coppice/internal/codec/envelope"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/internal/segment/segmenttest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// A segment that an earlier version has written is read for ever: testdata has one of each
// format version. It has blocks of both codecs, and a commit that is compressed in the log.
// A later build may compress differently, so that uncompressed commits are compared.
func TestRecordedSegments(t *testing.T) {
	t.Parallel()
	for version, recorded := range map[uint32]struct{ file, hash string }{
		1: {"testdata/version-1.segment", "56a0287466903b449dd60e987ea8c6bbfab78a50ac41ab146b761c09b31a9d26"},
	} {
		b, err := os.ReadFile(recorded.file)
		must.Succeed(t, err)
		info, err := segment.Verify(bytes.NewReader(b))
		if err != nil || info.Version != version || fmt.Sprintf("%x", info.Hash) != recorded.hash {
			t.Errorf("%s: %+v, hash %x, %v", recorded.file, info, info.Hash, err)
		}
		r := open(t, b)
		want := recordedLog().Messages[2:]
		got, err := collect(r.Commits(0))
		if err != nil || len(got) != len(want) || r.Info() != info {
			t.Fatalf("%s: %d commits, want %d, %v", recorded.file, len(got), len(want), err)
		}
		for i, c := range got {
			if content, err := envelope.Open(want[i].Data); err != nil || commitcodec.Checksum(content) != c.Checksum || c.Position != want[i].Position {
				t.Errorf("%s: commit %d differs, %v", recorded.file, c.Sequence, err)
			}
		}
	}
	if segment.Version != 1 {
		t.Error("add a segment of the new version to testdata")
	}
}

// recordedLog is the log of which testdata has the segments. It must not change.
func recordedLog() *segmenttest.Log {
	log := segmenttest.New(25)
	for range 10 {
		log.Add(12, `{"image":"registry.example/web:1","replicas":3,"selector":{"app":"web"},"strategy":"RollingUpdate"}`)
	}
	log.Add(80, `{"schedule":"*/5 * * * *","image":"registry.example/job:7","command":["run","--all"]}`)
	noise := make([]byte, 1500)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(noise)
	log.Add(1, string(noise))
	return log
}
