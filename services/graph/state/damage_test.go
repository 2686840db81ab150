package state

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
)

// A body that cannot be read is never an empty one: the read fails, and so does the next
// Open, until the state is removed.
func TestUnreadableBody(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(file string) error
		late   bool // the damage happens when the state is open
		opens  bool // the damage shows only when the body is read
	}{
		"flipped":           {change: flipBodies, opens: true},
		"flipped when open": {change: flipBodies, late: true},
		"cut when open":     {change: func(file string) error { return os.Truncate(file, 100) }, late: true},
		"missing":           {change: os.Remove},
		"cut":               {change: func(file string) error { return os.Truncate(file, 100) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, u := t.TempDir(), uid.New()
			s, err := Open(dir, Config{})
			must.Succeed(t, err)
			body := make([]byte, 4000)
			random := rand.New(rand.NewPCG(1, 2))
			for i := range body {
				body[i] = byte(random.Uint32())
			}
			must.Succeed(t, errors.Join(s.db.Set(appendUIDKey(nil, tableBody, u), body, pebble.NoSync), s.Sync(), s.Close()))
			injure := func() {
				files, err := filepath.Glob(filepath.Join(dir, "*.blob"))
				if err != nil || len(files) != 1 {
					t.Fatalf("files of bodies: %v, %v", files, err)
				}
				must.Succeed(t, c.change(files[0]))
			}
			if !c.late {
				injure()
			}
			s, err = Open(dir, Config{})
			if err == nil && !c.late && !c.opens {
				t.Error("the state was opened")
			}
			if err == nil {
				if c.late {
					injure()
				}
				for _, idle := range []map[byte]*cursor{nil, {}} {
					r := reader{db: s.db, failures: s.failures, idle: idle}
					r.body(u)
					if !errors.Is(r.failure, ErrDamaged) && !pebble.IsCorruptionError(r.failure) {
						t.Errorf("read, with cursors: %v: %v", idle != nil, r.failure)
					}
					_ = protect(r.close)
				}
				if !errors.Is(s.Failure(), ErrDamaged) {
					t.Errorf("the state has failed by %v", s.Failure())
				}
				_ = s.Close()
				_, err = Open(dir, Config{})
			}
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("open: %v", err)
			}
		})
	}
}

func flipBodies(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for i := range b[:len(b)/2] { // not the footer, without which Pebble does not open the file
		b[i] ^= 1
	}
	return os.WriteFile(file, b, 0o600)
}

// Panics that are not Pebble's about damage continue.
func TestProtect(t *testing.T) {
	t.Parallel()
	defer func() {
		if p := recover(); p != "a mistake" {
			t.Errorf("recovered %v", p)
		}
	}()
	full := &os.PathError{Op: "sync", Path: "state", Err: syscall.ENOSPC}
	if err := protect(func() error { panic(full) }); !errors.Is(err, syscall.ENOSPC) || errors.Is(err, ErrDamaged) {
		t.Errorf("a sync that panics: %v", err)
	}
	err := protect(func() error { panic("a mistake") })
	t.Errorf("no panic, but %v", err)
}
