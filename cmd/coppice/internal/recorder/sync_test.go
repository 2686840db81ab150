package recorder

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/coppice-gc/coppice/internal/segment/segmenttest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// The system reports a failed sync once. The recording is not complete, whatever later syncs say.
func TestFailedSync(t *testing.T) {
	t.Parallel()
	log := segmenttest.New(4)
	r, err := Open(filepath.Join(t.TempDir(), "log"))
	must.Succeed(t, err)
	add := func(m segmenttest.Message) error {
		_, err := r.Add(m.Position, m.Data, 0)
		return err
	}
	must.Succeed(t, add(log.Messages[0]))
	lost, sync := errors.New("input/output error"), r.file.sync
	r.file.sync = func() error { r.file.sync = sync; return lost }
	if err := r.Flush(); !errors.Is(err, lost) {
		t.Errorf("flush: %v", err)
	}
	if err := add(log.Messages[1]); !errors.Is(err, lost) {
		t.Errorf("add: %v", err)
	}
	if err := r.Flush(); !errors.Is(err, lost) {
		t.Errorf("the next flush: %v", err)
	}
	if _, err := r.Close(); !errors.Is(err, lost) {
		t.Errorf("close: %v", err)
	}
}
