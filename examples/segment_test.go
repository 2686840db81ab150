package examples_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/codec/commitcodec"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/internal/segment/segmenttest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
)

// The reader in Python, which was written from docs/formats.md, reads what package segment
// writes, and refuses a segment that is damaged, or has a commit of a newer version of the log
// format.
func TestSegmentInPython(t *testing.T) {
	nightly.Test(t, nightly.Zstandard)
	t.Parallel()
	interpreter, err := nightly.Python("zstandard")
	must.Succeed(t, err)
	log := segmenttest.New(30)
	log.Add(500, strings.Repeat("compressed in the log ", 100))
	b, info := segmenttest.Write(t, log.Messages[3:], 7)
	var want strings.Builder
	r, err := segment.Open(strings.NewReader(string(b)), int64(len(b)))
	must.Succeed(t, err)
	for c, err := range r.Commits(0) {
		must.Succeed(t, err)
		fmt.Fprintf(&want, "position %d realm %x commit %d first revision %d time %d size %d\n",
			c.Position, c.RealmID, c.Sequence, c.FirstRevision, c.Time, len(c.Message))
	}
	read := func(content []byte) (string, error) {
		file := filepath.Join(t.TempDir(), "segment")
		must.Succeed(t, os.WriteFile(file, content, 0o600))
		out, err := exec.CommandContext(t.Context(), interpreter, "segment/read.py", file).CombinedOutput()
		return string(out), err
	}
	if out, err := read(b); err != nil || out != want.String() {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want.String())
	}
	if n := strings.Count(want.String(), "\n"); n != int(info.Commits) {
		t.Errorf("%d commits of %d", n, info.Commits)
	}
	for _, at := range []int{0, 8, 30, 60, 110, len(b) / 2, len(b) - 150, len(b) - 1} {
		damaged := []byte(string(b))
		damaged[at] ^= 0x20
		if out, err := read(damaged); err == nil || !strings.Contains(out, ": byte ") {
			t.Errorf("byte %d was changed: %v\n%s", at, err, out)
		}
	}
	recorded, err := os.ReadFile(filepath.Join("..", "test", "formats", "testdata", "1", "uses", "log.segment"))
	must.Succeed(t, err)
	if out, err := read(recorded); err != nil {
		t.Errorf("a recording: %v\n%s", err, out)
	}
	newer := segmenttest.WithNewerCommit(t, recorded)
	if out, err := read(newer); err == nil || !strings.Contains(out, fmt.Sprintf("has version %d of the log format: use a newer reader", commitcodec.Format+1)) || strings.Contains(out, "position") {
		t.Errorf("a commit of a newer version of the log format: %v\n%s", err, out)
	}
	if out, err := read(b[:len(b)-1]); err == nil || !strings.Contains(out, fmt.Sprintf("byte %d: the file ends here", len(b)-1)) {
		t.Errorf("truncated: %v\n%s", err, out)
	}
}
