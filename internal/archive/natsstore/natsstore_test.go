package natsstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/archivetest"
	"github.com/coppice-gc/coppice/internal/archive/natsstore"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// connect starts a server, and returns a function that connects to it.
func connect(t *testing.T) func() jetstream.JetStream {
	t.Helper()
	const name = "archiver"
	s := testkit.StartNATS(t, natsd.Config{Dir: t.TempDir(), Roles: []bus.Role{{Name: name, Publish: []string{">"}, Subscribe: []string{">"}}}})
	return func() jetstream.JetStream { return testkit.JetStream(t, s, name) }
}

func create(t *testing.T, js jetstream.JetStream, bucket string) *natsstore.Store {
	t.Helper()
	s, err := natsstore.Create(testkit.Context(t), js, bucket, 1)
	must.Succeed(t, err)
	return s
}

func TestConformance(t *testing.T) {
	t.Parallel()
	js := connect(t)
	var buckets atomic.Int64
	archivetest.Run(t, func(t *testing.T) (archive.Store, func() archive.Store) {
		t.Helper()
		bucket := fmt.Sprintf("archive-%d", buckets.Add(1))
		return create(t, js(), bucket), func() archive.Store { return create(t, js(), bucket) }
	})
}

func random(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// NATS' own clients read entries, and the store reads ranges of the objects that they put.
func TestObjects(t *testing.T) {
	t.Parallel()
	js := connect(t)()
	s := create(t, js, "archive")
	objects, err := js.ObjectStore(testkit.Context(t), "archive")
	must.Succeed(t, err)
	want := random(700 << 10)
	must.Succeed(t, s.Put(testkit.Context(t), "a/b", bytes.NewReader(want), int64(len(want))))
	if got, err := objects.GetBytes(testkit.Context(t), "a/b"); err != nil || !bytes.Equal(got, want) { // checks the digest
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := objects.PutBytes(testkit.Context(t), "a/c", want); err != nil {
		t.Fatal(err)
	}
	for _, offset := range []int64{0, 1, 300 << 10, int64(len(want)) - 10} {
		in, err := s.Open(testkit.Context(t), "a/c", offset, 10)
		must.Succeed(t, err)
		if got, err := io.ReadAll(in); err != nil || !bytes.Equal(got, want[offset:offset+10]) {
			t.Errorf("offset %d: %x, %v", offset, got, err)
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := s.Put(testkit.Context(t), "a/c", strings.NewReader("x"), 1); !errors.Is(err, archive.ErrExists) {
		t.Error(err)
	}
}

// A Put that fails leaves no chunks, and one that another caller has overtaken neither.
func TestNoChunksAreLeft(t *testing.T) {
	t.Parallel()
	js := connect(t)()
	s := create(t, js, "archive")
	stream, err := js.Stream(testkit.Context(t), "OBJ_archive")
	must.Succeed(t, err)
	stored := func() uint64 {
		info, err := stream.Info(testkit.Context(t))
		must.Succeed(t, err)
		return info.State.Msgs
	}
	failing := io.MultiReader(bytes.NewReader(random(3<<20)), iotest.ErrReader(errors.New("read error")))
	if err := s.Put(testkit.Context(t), "a/b", failing, 4<<20); err == nil {
		t.Error("content that fails was stored")
	}
	if n := stored(); n > 0 {
		t.Errorf("%d messages are left", n)
	}
	overtaken := io.MultiReader(bytes.NewReader(random(1<<20)), &action{func() error {
		return s.Put(testkit.Context(t), "a/b", strings.NewReader("first"), 5)
	}}, strings.NewReader("."))
	if err := s.Put(testkit.Context(t), "a/b", overtaken, 1<<20+1); !errors.Is(err, archive.ErrExists) {
		t.Errorf("put: %v", err)
	}
	if n := stored(); n != 2 {
		t.Errorf("%d messages, of an entry with one chunk", n)
	}
}

// action is a reader without content that does something when it is reached.
type action struct{ do func() error }

func (a *action) Read([]byte) (int, error) {
	if err := a.do(); err != nil {
		return 0, err
	}
	return 0, io.EOF
}

// stored returns a store in which the entry a/b has several chunks, and its content.
func stored(t *testing.T) (js jetstream.JetStream, s *natsstore.Store, want []byte) {
	t.Helper()
	js = connect(t)()
	s, want = create(t, js, "archive"), random(500<<10)
	must.Succeed(t, s.Put(testkit.Context(t), "a/b", bytes.NewReader(want), int64(len(want))))
	return js, s, want
}

// An entry whose metadata do not name the sequences of its chunks, as after the stream was
// copied, is read all the same.
func TestOtherSequences(t *testing.T) {
	t.Parallel()
	js, s, want := stored(t)
	objects, err := js.ObjectStore(testkit.Context(t), "archive")
	must.Succeed(t, err)
	info, err := objects.GetInfo(testkit.Context(t), "a/b")
	must.Succeed(t, err)
	meta := info.ObjectMeta
	const key = "coppice-sequences"
	right := meta.Metadata[key]
	stream, _, ok := strings.Cut(right, ":")
	if !ok || !strings.HasSuffix(right, ":1+4") {
		t.Fatalf("the metadata have %q", right)
	}
	for _, sequences := range []string{stream + ":100+4", stream + ":x", "1:2+4", "2+4", ""} {
		meta.Metadata = map[string]string{key: sequences}
		must.Succeed(t, objects.UpdateMeta(testkit.Context(t), "a/b", meta))
		for _, r := range [][2]int{{10, 110}, {0, len(want)}, {130 << 10, 300 << 10}, {len(want) - 1, len(want)}} {
			in, err := s.Open(testkit.Context(t), "a/b", int64(r[0]), int64(r[1]-r[0]))
			if err != nil {
				t.Fatalf("sequences %q: %v", sequences, err)
			}
			if got, err := io.ReadAll(in); err != nil || !bytes.Equal(got, want[r[0]:r[1]]) {
				t.Errorf("sequences %q: %v: %d bytes, %v", sequences, r, len(got), err)
			}
			if err := in.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	copied, err := js.Stream(testkit.Context(t), "OBJ_archive")
	must.Succeed(t, err)
	must.Succeed(t, copied.DeleteMsg(testkit.Context(t), 4))
	in, err := s.Open(testkit.Context(t), "a/b", 0, int64(len(want)))
	must.Succeed(t, err)
	if got, err := io.ReadAll(in); !archive.IsDamaged(err) || len(got) != 3*128<<10 {
		t.Errorf("without the last chunk: %d bytes, %v", len(got), err)
	}
}

// A user who may not write objects learns that at once, and which subjects it needs. An earlier refusal has no effect
// on a store that may.
func TestDenied(t *testing.T) {
	t.Parallel()
	server := testkit.StartNATS(t, natsd.Config{Dir: t.TempDir(), Roles: []bus.Role{
		{Name: "reader", Publish: []string{"$JS.API.>", "$O.mine.>"}, Subscribe: []string{">"}},
	}})
	js := testkit.JetStream(t, server, "reader")
	s, mine := create(t, js, "archive"), create(t, js, "mine")
	for _, size := range []int{1, 10 << 20} { // one chunk, and more than are published before they are acknowledged
		err := s.Put(t.Context(), "a/b", bytes.NewReader(random(size)), int64(size))
		if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), "publish to $O.archive.>") {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if err := mine.Put(testkit.Context(t), "a/b", bytes.NewReader(random(10<<20)), 10<<20); err != nil {
		t.Error(err)
	}
}

// An entry that is deleted while it is read is gone, and not damaged, also if one of its name is put again.
func TestDeletedWhileRead(t *testing.T) {
	t.Parallel()
	_, s, _ := stored(t)
	ctx := testkit.Context(t)
	for _, again := range []bool{false, true} {
		must.Succeed(t, s.Put(ctx, "large", bytes.NewReader(random(10<<20)), 10<<20))
		in, err := s.Open(ctx, "large", 0, 10<<20)
		must.Succeed(t, err)
		if _, err := io.ReadFull(in, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		must.Succeed(t, s.Delete(ctx, "large"))
		if again {
			must.Succeed(t, s.Put(ctx, "large", bytes.NewReader(random(10<<20)), 10<<20))
		}
		if n, err := io.Copy(io.Discard, in); !errors.Is(err, archive.ErrNotFound) || archive.IsDamaged(err) {
			t.Errorf("put again %t: %d more bytes, %v", again, n, err)
		}
		_ = in.Close()
	}
}

// An entry with a chunk that is missing is damaged, and that is no failure of the store.
func TestMissingChunk(t *testing.T) {
	t.Parallel()
	js, s, want := stored(t)
	stream, err := js.Stream(testkit.Context(t), "OBJ_archive")
	must.Succeed(t, err)
	must.Succeed(t, stream.DeleteMsg(testkit.Context(t), 3))
	for _, offset := range []int64{0, 2 * 128 << 10} {
		in, err := s.Open(testkit.Context(t), "a/b", offset, int64(len(want))-offset)
		must.Succeed(t, err)
		got, err := io.ReadAll(in)
		if !archive.IsDamaged(err) || len(got) >= len(want)-int(offset) {
			t.Errorf("from offset %d, %d bytes were read, %v", offset, len(got), err)
		}
		_ = in.Close()
	}
}

// A server that does not answer ends the calls of an archive.Limited, which have no other time limit.
func TestServerHangs(t *testing.T) {
	t.Parallel()
	const stall = 500 * time.Millisecond // in which a server that answers does so
	server := testkit.StartNATS(t, natsd.Config{Dir: t.TempDir(), Roles: []bus.Role{{Name: "archiver", Publish: []string{">"}, Subscribe: []string{">"}}}})
	proxy := testkit.NewProxy(t, server.URL())
	js, err := jetstream.New(testkit.Dial(t, server, proxy.URL(), "archiver"))
	must.Succeed(t, err)
	s := create(t, js, "archive")
	want := random(20 << 20)
	must.Succeed(t, s.Put(testkit.Context(t), "a/b", bytes.NewReader(want), int64(len(want))))
	in, err := archive.Limit(s, stall).Open(t.Context(), "a/b", 0, int64(len(want)))
	must.Succeed(t, err)
	proxy.Set(testkit.ToClient, testkit.Hold)
	if got, err := io.ReadAll(in); !errors.Is(err, archive.ErrStalled) {
		t.Errorf("read: %d bytes, %v", len(got), err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	limited := archive.Limit(s, stall)
	if err := limited.Put(t.Context(), "a/c", bytes.NewReader(want), int64(len(want))); !errors.Is(err, archive.ErrStalled) {
		t.Errorf("put: %v", err)
	}
	for _, err := range limited.List(t.Context(), "") {
		if !errors.Is(err, archive.ErrStalled) {
			t.Errorf("list: %v", err)
		}
	}
	if err := limited.Delete(t.Context(), "a/b"); !errors.Is(err, archive.ErrStalled) {
		t.Errorf("delete: %v", err)
	}
	proxy.Heal()
}

// A name that was misspelled is an error, not an empty archive.
func TestMissingBucket(t *testing.T) {
	t.Parallel()
	if _, err := natsstore.Open(testkit.Context(t), connect(t)(), "none"); err == nil || !strings.Contains(err.Error(), "nats object add none") {
		t.Error(err)
	}
}

// delayed is a JetStream in which the first publication of metadata gets no answer, the second is refused
// because the first is being proposed, and the first is stored then.
type delayed struct {
	jetstream.JetStream
	attempts int
	first    *nats.Msg
}

func (d *delayed) PublishMsg(ctx context.Context, m *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	d.attempts++
	switch d.attempts {
	case 1:
		d.first = &nats.Msg{Subject: m.Subject, Data: m.Data, Header: maps.Clone(m.Header)}
		return nil, nats.ErrTimeout
	case 2:
		return nil, &jetstream.APIError{Code: 400, ErrorCode: 10164, Description: "wrong last sequence"}
	case 3:
		if _, err := d.JetStream.PublishMsg(ctx, d.first); err != nil {
			return nil, err
		}
	}
	return d.JetStream.PublishMsg(ctx, m, opts...)
}

// An attempt to publish the metadata that is stored late has put the entry: it is whole, and is not said to
// exist before.
func TestLateMetadata(t *testing.T) {
	t.Parallel()
	js := &delayed{JetStream: connect(t)()}
	s, want := create(t, js, "archive"), random(300<<10)
	if err := s.Put(testkit.Context(t), "a/b", bytes.NewReader(want), int64(len(want))); err != nil || js.attempts != 3 {
		t.Fatalf("after %d attempts: %v", js.attempts, err)
	}
	in, err := s.Open(testkit.Context(t), "a/b", 0, int64(len(want)))
	must.Succeed(t, err)
	if got, err := io.ReadAll(in); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}

// A server that lags lacks an entry that was just put: its metadata and its chunks are read from the
// leader of the stream. Only what the leader lacks is not there.
func TestLaggingCopy(t *testing.T) {
	t.Parallel()
	connected := connect(t)
	s := create(t, connected(), "archive")
	want := random(300 << 10)
	ctx := testkit.Context(t)
	put := func() error { return s.Put(ctx, "a", bytes.NewReader(want), int64(len(want))) }
	must.Succeed(t, put())
	testkit.Lag(t, connected(), "OBJ_archive", 0)
	r, err := s.Open(ctx, "a", 0, int64(len(want)))
	must.Succeed(t, err)
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := put(); !errors.Is(err, archive.ErrExists) {
		t.Errorf("put again: %v", err)
	}
	if _, err := s.Open(ctx, "b", 0, 0); !errors.Is(err, archive.ErrNotFound) {
		t.Errorf("an entry that is not there: %v", err)
	}
}
