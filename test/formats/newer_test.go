package formats_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/segment/segmenttest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/recording"
)

// A recorded log whose last commit has a newer format is refused, with what to do, and no state is made of the
// commits before it.
func TestNewerCommitInSegment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, to := filepath.Join(dir, "newer.segment"), filepath.Join(dir, "state")
	must.Succeed(t, os.WriteFile(file, segmenttest.WithNewerCommit(t, read(t, "testdata/1/uses", logFile)), 0o600))
	_, err := recording.Fold(t.Context(), file, to, func(uint64, uint64) {})
	if err == nil || !strings.Contains(err.Error(), "has version 5 of the log format, and this program reads versions up to 4: replace it by the version of Coppice that has written the commit") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(to); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of the state exists: %v", err)
	}
}
