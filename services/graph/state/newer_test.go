package state

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// A state of a newer layout, or of a newer format of Pebble, is refused with what to do, and not changed.
func TestNewerState(t *testing.T) {
	t.Parallel()
	const what = "use the version of Coppice that wrote it, or a newer one"
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string, s *State)
		schema uint32
	}{
		"layout": {func(t *testing.T, _ string, s *State) {
			t.Helper()
			must.Succeed(t, errors.Join(s.db.Set(keySchema, []byte(strconv.Itoa(schema+1)), pebble.NoSync), s.Sync(), s.Close()))
		}, schema + 1},
		"Pebble": {func(t *testing.T, dir string, s *State) {
			t.Helper()
			must.Succeed(t, s.Close())
			markers, err := filepath.Glob(filepath.Join(dir, "marker.format-version.*"))
			if err != nil || len(markers) != 1 {
				t.Fatalf("markers of the format: %v, %v", markers, err)
			}
			newer := markers[0][:strings.LastIndexByte(markers[0], '.')] + ".999"
			must.Succeed(t, os.Rename(markers[0], newer))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s, err := Open(dir, Config{})
			must.Succeed(t, err)
			c.change(t, dir, s)
			for range 2 { // the first refusal changes nothing
				_, err = Open(dir, Config{})
				var newer *NewerError
				if !errors.As(err, &newer) || newer.Schema != c.schema || errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), what) {
					t.Errorf("got %v", err)
				}
			}
		})
	}
}
