package allinone_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/stack"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
)

// load creates objects one by one, and remembers those that were acknowledged.
type load struct {
	*stack.Stack
	objects client.ResourceClient
	names   []string
	n       int
}

// create creates an object, for which there is so much time.
func (l *load) create(within time.Duration) error {
	l.TB.Helper()
	ctx, cancel := context.WithTimeout(l.Ctx, within)
	defer cancel()
	o := named(fmt.Sprintf("o-%05d", l.n))
	o.Spec = []byte(`"` + strings.Repeat("x", 4000) + `"`)
	l.n++
	_, err := l.objects.Create(ctx, o)
	if err == nil {
		l.names = append(l.names, o.GetMetadata().GetName())
	}
	return err
}

// withUsualLease has a lease last as long as in production: it ends while the disk is full.
func withUsualLease(c *graph.Config) { c.LeaseTTL = 0 }

// kept checks that all that was acknowledged is there, and that the state is the fold
// of the log.
func (l *load) kept() {
	l.TB.Helper()
	there := map[string]bool{}
	for o, err := range l.objects.List(l.Ctx) {
		must.Succeed(l.TB, err)
		there[o.GetMetadata().GetName()] = true
	}
	for _, name := range l.names {
		if !there[name] {
			l.TB.Errorf("%s was acknowledged, and is not there", name)
		}
	}
	v, err := l.Operations().Verify(l.Ctx)
	if err != nil || v.GetDifference() != "" || v.GetSequence() == 0 {
		l.TB.Errorf("the state is not the fold of the log: %v, %v", v, err)
	}
}

// `coppice up` outlasts a full disk: readiness says so, and when there is room again it
// goes on by itself, with all that was acknowledged. More than once.
func TestOutlastsFullDisk(t *testing.T) {
	t.Parallel()
	disk := testkit.NewDisk(t, 128<<20)
	s := stack.Start(t, allinone.Config{Dir: filepath.Join(disk.Dir, "data"), Port: -1, Graph: withUsualLease})
	l := &load{Stack: s, objects: objects(s, bus.DefaultRealm)}
	for range 2 {
		for range 20 {
			must.Succeed(t, l.create(testkit.Timeout))
		}
		free := disk.Fill()
		l.WaitFor("a command that is not acknowledged", func() bool { return l.create(time.Second) != nil })
		l.WaitFor("readiness to name the full disk", func() bool {
			err := s.Services.Ready()
			return err != nil && strings.Contains(err.Error(), "or a disk of NATS is full")
		})
		free()
		begun := time.Now()
		if err := l.create(testkit.Timeout); err != nil {
			t.Fatalf("a command after there was room: %v", err)
		}
		t.Logf("a command was acknowledged %.1f s after there was room; it should be 10 s at most", time.Since(begun).Seconds())
		l.WaitFor("all services to be ready", func() bool { return s.Services.Ready() == nil })
		l.kept()
	}
}

// `coppice up` starts on a small disk: nothing reserves room that is not needed.
func TestStartOnSmallDisk(t *testing.T) {
	t.Parallel()
	disk := testkit.NewDisk(t, 200<<20)
	c := allinone.Config{Dir: filepath.Join(disk.Dir, "data"), Realms: []string{"one", "two", "three"}}
	for _, name := range []string{"first", "again"} {
		s := stack.Start(t, c)
		for _, realm := range c.Realms {
			if _, err := objects(s, realm).Create(s.Ctx, named(name)); err != nil {
				t.Errorf("realm %s: %v", realm, err)
			}
		}
		s.Stop()
	}
}

// A state that cannot be written, as the disk is full, does not end `coppice up`: the realm
// is tried again until there is room.
func TestOutlastsFullState(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	s := stack.Start(t, allinone.Config{Graph: func(c *graph.Config) {
		withUsualLease(c)
		c.State.MemTableSize = 64 << 10
		c.State.FS = errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if full.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.HasSuffix(op.Path, ".sst") {
				return &os.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
			}
			return nil
		}))
	}})
	l := &load{Stack: s, objects: objects(s, bus.DefaultRealm)}
	must.Succeed(t, l.create(testkit.Timeout))
	full.Store(true)
	l.WaitFor("readiness to name the full disk", func() bool {
		_ = l.create(time.Second)
		err := s.Services.Ready()
		return err != nil && strings.Contains(err.Error(), syscall.ENOSPC.Error())
	})
	full.Store(false)
	l.WaitFor("a command to be acknowledged", func() bool {
		select {
		case <-s.Services.Ended():
			t.Fatalf("the services have ended: %v", s.Services.Stop())
		default:
		}
		return l.create(10*time.Second) == nil // not for long, so that an end is noticed
	})
	l.kept()
}
