package backup_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/archivetest"
	"github.com/coppice-gc/coppice/internal/archive/dirstore"
	"github.com/coppice-gc/coppice/internal/segment/segmenttest"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/backup"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// The commits of the archives of these tests, and the revision after the last one.
const commits, perSegment = 30, 10

// put puts segments of a log, from a commit to another.
func put(t *testing.T, s archive.Store, first, last int) {
	t.Helper()
	file, info := segmenttest.Write(t, segmenttest.New(last).Messages[first-1:], 0)
	name := archive.Name{Realm: info.RealmID, Kind: archive.Segment, First: info.First.Sequence, Last: info.Last.Sequence}
	must.Succeed(t, s.Put(t.Context(), name.String(), strings.NewReader(string(file)), int64(len(file))))
}

func directory(t *testing.T) (archive.Store, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := dirstore.Open(dir)
	must.Succeed(t, err)
	return s, dir
}

// source is an archive, and the manifest of a backup of it.
func source(t *testing.T) (archive.Store, archive.Backup) {
	t.Helper()
	s, _ := directory(t)
	for first := 1; first <= commits; first += perSegment {
		put(t, s, first, first+perSegment-1)
	}
	return s, manifest(commits)
}

func manifest(last uint64) archive.Backup {
	b := archive.NewBackup(time.Now(), "test", "1.2.3")
	b.Realms = []archive.BackupRealm{{Name: "default", ID: segmenttest.Realm, Sequence: last, Revision: 45}}
	return b
}

func take(ctx context.Context, dst, src archive.Store, b archive.Backup) error {
	_, err := backup.Take(ctx, dst, []backup.Source{{Store: src, Realms: b.Realms}}, b, func(int64) {})
	return err
}

// whole checks that each manifest of an archive can be restored, and returns their number.
func whole(t *testing.T, s archive.Store) int {
	t.Helper()
	list, err := archive.Backups(t.Context(), s)
	must.Succeed(t, err)
	for _, e := range list {
		b, err := archive.ReadBackup(t.Context(), s, e)
		must.Succeed(t, err)
		must.Succeed(t, backup.Check(t.Context(), s, &b, func(int64) {}))
	}
	return len(list)
}

// fails checks that an error says something.
func fails(t *testing.T, err error, says string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("%v, want an error that says %q", err, says)
	}
}

var errInjected = errors.New("injected")

// A backup that fails at any call of a store leaves an earlier manifest as it is and no other one, and is completed by the same command.
func TestInterruptedBackup(t *testing.T) {
	t.Parallel()
	src, b := source(t)
	for _, ofSource := range []bool{false, true} {
		for failAt := 1; ; failAt++ {
			dst, _ := directory(t)
			first, _ := directory(t)
			put(t, first, 1, perSegment)
			must.Succeed(t, take(t.Context(), dst, first, manifest(perSegment)))
			calls := 0
			hook := func(s archive.Store) archive.Store {
				return &archivetest.Hooked{Store: s, Before: func(context.Context, archivetest.Call) error {
					if calls++; calls == failAt {
						return errInjected
					}
					return nil
				}}
			}
			failingDst, failingSrc := hook(dst), src
			if ofSource {
				failingDst, failingSrc = dst, hook(src)
			}
			err := take(t.Context(), failingDst, failingSrc, b)
			if calls < failAt {
				must.Succeed(t, err)
				if failAt < 5 {
					t.Errorf("only %d calls", failAt)
				}
				break
			}
			if n := whole(t, dst); err != nil && n != 1 || err == nil && n != 2 {
				t.Errorf("call %d of the source=%v fails: %v, and there are %d manifests", failAt, ofSource, err, n)
			}
			if err == nil && !ofSource {
				t.Errorf("call %d of the destination failed, and the backup did not", failAt)
			}
			if err != nil {
				must.Succeed(t, take(t.Context(), dst, src, b))
			}
			if n := whole(t, dst); n != 2 {
				t.Errorf("call %d fails: after a second attempt there are %d manifests", failAt, n)
			}
		}
	}
}

// A process that is killed while it stores an entry, also the manifest, leaves nothing that counts.
func TestCutPut(t *testing.T) {
	t.Parallel()
	src, b := source(t)
	dst, _ := directory(t)
	cut := &archivetest.Hooked{Store: dst, Putting: func(c archivetest.Call, in io.Reader) io.Reader {
		if archive.IsBackup(c.Name) {
			return io.LimitReader(in, 20)
		}
		return in
	}}
	fails(t, take(t.Context(), cut, src, b), "the manifest is not stored, so there is no backup yet")
	if n := whole(t, dst); n != 0 {
		t.Errorf("%d manifests", n)
	}
	_, err := backup.Find(t.Context(), dst, "")
	fails(t, err, "has no backup that was completed")
}

// A damaged or missing entry of the archive is found when it is copied, and one of the backup when that is checked.
func TestDamagedBackup(t *testing.T) {
	t.Parallel()
	src, b := source(t)
	gap, _ := directory(t)
	put(t, gap, 1, 10)
	put(t, gap, 21, 30)
	dst, _ := directory(t)
	fails(t, take(t.Context(), dst, gap, b), "realm default: its graph service has archived commit 30, and the archive that is read does not have it")
	damaged := &archivetest.Hooked{Store: src, Reading: func(c archivetest.Call, in io.ReadCloser) io.ReadCloser {
		if c.Entry.First == 11 {
			return io.NopCloser(strings.NewReader(strings.Repeat("x", int(c.Length))))
		}
		return in
	}}
	fails(t, take(t.Context(), dst, damaged, b), "realm default: ")
	if n := whole(t, dst); n != 0 {
		t.Errorf("%d manifests", n)
	}
	for _, remove := range []bool{false, true} {
		dst, dir := directory(t)
		must.Succeed(t, take(t.Context(), dst, src, b))
		must.Succeed(t, backup.Check(t.Context(), dst, &b, func(int64) {}))
		files, err := filepath.Glob(filepath.Join(dir, "*", "segment", "*11-*"))
		must.Succeed(t, err)
		content, err := os.ReadFile(files[0])
		must.Succeed(t, err)
		content[len(content)/2] ^= 1
		want := "damaged segment"
		if remove {
			must.Succeed(t, os.Remove(files[0]))
			want = "commits 11 to 20 are in no segment"
		} else {
			must.Succeed(t, os.WriteFile(files[0], content, 0o600))
		}
		fails(t, backup.Check(t.Context(), dst, &b, func(int64) {}), want)
		// The next backup copies what is missing, and finds what is damaged.
		again := take(t.Context(), dst, src, manifest(30))
		list, err := archive.Backups(t.Context(), dst)
		must.Succeed(t, err)
		if remove {
			must.Succeed(t, again)
		} else {
			fails(t, again, "there is no backup, since it could not be restored: realm default: archive ")
		}
		if remove != (len(list) == 2) {
			t.Errorf("after another backup there are %d manifests", len(list))
		}
	}
}

// Two backups at once, and one that graph services prune and merge meanwhile, are complete.
func TestConcurrentBackups(t *testing.T) {
	t.Parallel()
	src, b := source(t)
	other := manifest(commits)
	dst, _ := directory(t)
	g, ctx := errgroup.WithContext(t.Context())
	for _, m := range []archive.Backup{b, other} {
		g.Go(func() error { return take(ctx, dst, src, m) })
	}
	must.Succeed(t, g.Wait())
	if n := whole(t, dst); n != 2 {
		t.Errorf("%d manifests", n)
	}

	merged, _ := directory(t)
	put(t, merged, 1, 10)
	put(t, merged, 11, 20)
	put(t, merged, 21, 30)
	first := archive.Name{Realm: segmenttest.Realm, Kind: archive.Segment, First: 1, Last: 10}.String()
	merging := &archivetest.Hooked{Store: merged, Before: func(ctx context.Context, c archivetest.Call) error {
		if c.Op != archivetest.Open || c.Name != first {
			return nil
		}
		put(t, merged, 1, 20)
		return merged.Delete(ctx, first)
	}}
	to, _ := directory(t)
	must.Succeed(t, take(t.Context(), to, merging, b))
	if n := whole(t, to); n != 1 {
		t.Errorf("%d manifests", n)
	}
}

// Find finds the newest manifest, and others by time and id. A damaged one, and one of a later version, is an error.
func TestFind(t *testing.T) {
	t.Parallel()
	src, b := source(t)
	dst, dir := directory(t)
	must.Succeed(t, take(t.Context(), dst, src, b))
	later := manifest(commits)
	later.At = b.At.Add(time.Microsecond)
	must.Succeed(t, take(t.Context(), dst, src, later))
	id := fmt.Sprintf("%x", b.ID)
	time := strings.TrimSuffix(strings.TrimPrefix(b.Name(), "backup/"), "-"+id)
	for which, want := range map[string]archive.Backup{"": later, id: b, time: b, b.Name(): b, strings.TrimPrefix(b.Name(), "backup/"): b} {
		got, err := backup.Find(t.Context(), dst, which)
		if err != nil || got.ID != want.ID || !slices.Equal(got.Realms, want.Realms) {
			t.Errorf("%q: %+v, %v; want %+v", which, got, err, want)
		}
	}
	_, err := backup.Find(t.Context(), dst, "nothing")
	fails(t, err, "has no backup nothing; it has ")
	must.Succeed(t, os.WriteFile(filepath.Join(dir, later.Name()), []byte("{}\n"), 0o600))
	_, err = backup.Find(t.Context(), dst, "")
	fails(t, err, "it is damaged")
}

// What is copied to the archive of the restored realms ends with the commits of the manifest.
func TestHistory(t *testing.T) {
	t.Parallel()
	src, _ := source(t)
	b := manifest(perSegment)
	dst, _ := directory(t)
	done, err := backup.History(t.Context(), dst, src, &b, func(int64) {})
	if err != nil || done.Copied != 1 || len(done.Problems) > 0 {
		t.Errorf("%+v, %v", done, err)
	}
}
