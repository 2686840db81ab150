package recorder_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/recorder"
	"github.com/coppice-gc/coppice/internal/codec/commitcodec"
	"github.com/coppice-gc/coppice/internal/segment"
	"github.com/coppice-gc/coppice/internal/segment/segmenttest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

func open(t *testing.T, name string) *recorder.Recorder {
	t.Helper()
	r, err := recorder.Open(name)
	must.Succeed(t, err)
	return r
}

func add(t *testing.T, r *recorder.Recorder, messages ...segmenttest.Message) {
	t.Helper()
	for _, m := range messages {
		if ok, err := r.Add(m.Position, m.Data, 0); err != nil || !ok {
			t.Fatalf("position %d: %t, %v", m.Position, ok, err)
		}
	}
}

// verify returns what is wrong with a file.
func verify(t *testing.T, name string) (segment.Info, error) {
	t.Helper()
	f, err := os.Open(name)
	must.Succeed(t, err)
	defer f.Close()
	return segment.Verify(f)
}

// A recording that was killed has the commits up to its last flush, and is continued behind
// them; one that was closed is continued behind its last commit.
func TestContinue(t *testing.T) {
	t.Parallel()
	log := segmenttest.New(30)
	name := filepath.Join(t.TempDir(), "log")
	killed := open(t, name)
	add(t, killed, log.Messages[:10]...)
	must.Succeed(t, killed.Flush())
	add(t, killed, log.Messages[10:15]...)
	if _, err := verify(t, name); err == nil {
		t.Error("a recording that was not closed is complete")
	}

	r := open(t, name)
	if at := r.Last().Sequence; at != 10 {
		t.Fatalf("it goes on after commit %d, and 10 were flushed", at)
	}
	if err := r.Check(log.Messages[9].Position, log.Messages[9].Data); err != nil {
		t.Error(err)
	}
	add(t, r, log.Messages[10:20]...)
	closed, err := r.Close()
	if got, fail := verify(t, name); err != nil || fail != nil || got != closed || got.Last.Sequence != 20 {
		t.Fatalf("closed: %+v, %v; the file: %+v, %v", closed, err, got, fail)
	}
	// The killed one may still run: it notices that the file is not its own any more.
	if err := killed.Flush(); err == nil || !strings.Contains(err.Error(), "another program has changed the file") {
		t.Errorf("two recorders write to one file: %v", err)
	}

	r = open(t, name)
	add(t, r, log.Messages[20:]...)
	if _, err := r.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := verify(t, name)
	if _, want := segmenttest.Write(t, log.Messages, 0); err != nil || got.Hash != want.Hash {
		t.Errorf("%+v, %v, want the commits of %+v", got, err, want)
	}

	before, err := os.ReadFile(name)
	must.Succeed(t, err)
	if _, err := open(t, name).Close(); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(name); err != nil || string(after) != string(before) {
		t.Errorf("a recording to which nothing was added has changed, %v", err)
	}
}

// A recording begins with the commit that has the first revision that is asked for.
func TestFrom(t *testing.T) {
	t.Parallel()
	log := segmenttest.New(20)
	name := filepath.Join(t.TempDir(), "log")
	r := open(t, name)
	for _, m := range log.Messages {
		if _, err := r.Add(m.Position, m.Data, 12); err != nil {
			t.Fatal(err)
		}
	}
	info, err := r.Close()
	if err != nil || info.Before.Revision >= 12 || info.Before.Sequence == 0 {
		t.Fatalf("it begins after revision %d, %v", info.Before.Revision, err)
	}
	if before, ok := open(t, name).Before(); !ok || before != info.Before {
		t.Errorf("opened again: %+v, %t", before, ok)
	}
	empty := filepath.Join(t.TempDir(), "log")
	r = open(t, empty)
	if ok, err := r.Add(log.Messages[0].Position, log.Messages[0].Data, 1000); ok || err != nil {
		t.Errorf("a commit before revision 1000: %t, %v", ok, err)
	}
	if _, err := r.Close(); !errors.Is(err, segment.ErrNoCommits) {
		t.Errorf("closed without commits: %v", err)
	}
	if _, err := os.Stat(empty); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a recording without commits leaves a file: %v", err)
	}
}

// A file with another log, or of another program, is not continued, and stays as it is.
func TestOther(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "log")
	r := open(t, name)
	add(t, r, segmenttest.New(10).Messages...)
	if _, err := r.Close(); err != nil {
		t.Fatal(err)
	}
	other := segmenttest.New(9)
	other.Add(3, "another tenth commit")
	r = open(t, name)
	m := other.Messages[9]
	var differs *recorder.OtherError
	if err := r.Check(m.Position, m.Data); !errors.As(err, &differs) {
		t.Errorf("another log: %v", err)
	}
	other.Add(1, "the eleventh")
	m = other.Messages[10]
	if _, err := r.Add(m.Position, m.Data, 0); err == nil {
		t.Error("a commit of another log was added")
	}

	notes := filepath.Join(t.TempDir(), "notes")
	must.Succeed(t, os.WriteFile(notes, []byte("not a recording"), 0o600))
	if _, err := recorder.Open(notes); !errors.Is(err, segment.ErrForeign) {
		t.Errorf("a file that is no recording: %v", err)
	}
	if b, err := os.ReadFile(notes); err != nil || string(b) != "not a recording" {
		t.Errorf("it is now %q, %v", b, err)
	}
}

// Commits of an older history of the realm, which every reader skips, are left out.
func TestOlderHistory(t *testing.T) {
	t.Parallel()
	log := segmenttest.New(3)
	r := open(t, filepath.Join(t.TempDir(), "log"))
	add(t, r, log.Messages...)
	for _, h := range []commitcodec.Header{
		{RealmID: [16]byte{1}, Sequence: 4, Key: 1},
		{RealmID: segmenttest.Realm, Sequence: 2, Key: 1},
		{RealmID: segmenttest.Realm, Sequence: 4, Key: 2},
	} {
		h.ID, h.Epoch, h.Time, h.FirstRevision = [16]byte{9}, 1, 1, 1
		ok, err := r.Add(log.Last.Position+1, segmenttest.Seal(segmenttest.Header(h), log.Last.Position+1), 0)
		if ok || err != nil {
			t.Errorf("commit %d with key %d: %t, %v", h.Sequence, h.Key, ok, err)
		}
	}
	log.Last.Position += 3
	log.Add(2, "the fourth")
	add(t, r, log.Messages[3])
	if added, skipped := r.Added(); added != 4 || skipped != 3 {
		t.Errorf("%d commits were added, and %d left out", added, skipped)
	}
	if _, err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// A recorder that records nothing removes the file only if it has created it and no other has written to it.
func TestRemoves(t *testing.T) {
	t.Parallel()
	log := segmenttest.New(3)
	name := filepath.Join(t.TempDir(), "log")
	is := func(want bool) {
		t.Helper()
		if _, err := os.Stat(name); (err == nil) != want {
			t.Fatalf("the file: %v", err)
		}
	}
	closes := func(r *recorder.Recorder) {
		t.Helper()
		if _, err := r.Close(); !errors.Is(err, segment.ErrNoCommits) {
			t.Fatal(err)
		}
	}
	first, second := open(t, name), open(t, name)
	closes(second)
	is(true)
	closes(first)
	is(false)
	first, second = open(t, name), open(t, name)
	add(t, second, log.Messages...)
	if _, err := second.Close(); err != nil {
		t.Fatal(err)
	}
	closes(first)
	if _, err := verify(t, name); err != nil {
		t.Error(err)
	}
}
