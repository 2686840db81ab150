package eventlog_test

import (
	"encoding/json"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// at is when cuts are announced.
var at = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// announces fails the test unless a log has an announcement for a position.
func (b *written) announces(l *eventlog.Log, position uint64, when time.Time) {
	b.Helper()
	if a, err := l.Announced(b.Ctx); err != nil || a.Position != position || !a.At.Equal(when) {
		b.Errorf("the announcement is %+v, %v; want position %d at %v", a, err, position, when)
	}
}

func (b *written) announce(l *eventlog.Log, position uint64, when time.Time) {
	b.Helper()
	must.Succeed(b, l.Announce(b.Ctx, position, when))
}

// putCut replaces the value of the key.
func (b *written) putCut(value string) {
	b.Helper()
	kv, err := b.JS().KeyValue(b.Ctx, bus.WriterBucket)
	if err == nil {
		_, err = kv.PutString(b.Ctx, bus.CutKey(realm), value)
	}
	must.Succeed(b, err)
}

// config returns the configuration of the log's stream.
func (b *written) config() jetstream.StreamConfig {
	b.Helper()
	s, err := b.JS().Stream(b.Ctx, bus.LogStream(realm))
	must.Succeed(b, err)
	return s.CachedInfo().Config
}

// An announcement of a cut does not change the configuration of the stream, and one for a later position
// stays.
func TestAnnounce(t *testing.T) {
	t.Parallel()
	b := newWritten(t)
	before := b.config()
	b.announces(b.log, 0, time.Time{})
	b.announce(b.log, 7, at)
	b.announces(b.other, 7, at)
	b.announce(b.other, 5, at.Add(time.Hour))
	b.announces(b.log, 7, at)
	b.announce(b.other, 9, at.Add(time.Hour))
	b.announces(b.log, 9, at.Add(time.Hour))
	if after := b.config(); !maps.Equal(before.Metadata, after.Metadata) {
		t.Errorf("the metadata of the stream are %v, and were %v", after.Metadata, before.Metadata)
	}
}

// Of two processes that announce cuts at the same time, the later position stays.
func TestAnnounceAtOnce(t *testing.T) {
	t.Parallel()
	b := newWritten(t)
	b.announce(b.log, 1, at)
	for position := uint64(2); position < 40; position += 2 {
		var announcing sync.WaitGroup
		for i, l := range []*eventlog.Log{b.log, b.other} {
			announcing.Go(func() {
				if err := l.Announce(b.Ctx, position+uint64(i), at); err != nil {
					t.Error(err)
				}
			})
		}
		announcing.Wait()
		b.announces(b.log, position+1, at)
	}
}

// An announcement in the metadata of the stream, where earlier versions have put it, counts if it is for a later
// position, and stays as it is.
func TestAnnouncedInMetadata(t *testing.T) {
	t.Parallel()
	b := newWrittenWith(t, func(c *jetstream.StreamConfig) {
		c.Metadata = map[string]string{"coppice.cut": "7", "coppice.cut-at": at.Format(time.RFC3339)}
	})
	b.announces(b.log, 7, at)
	b.announce(b.log, 6, at.Add(time.Hour))
	b.announces(b.log, 7, at)
	b.announce(b.log, 8, at.Add(time.Hour))
	b.announces(b.log, 8, at.Add(time.Hour))
	if c := b.config(); c.Metadata["coppice.cut"] != "7" {
		t.Errorf("the metadata are %v", c.Metadata)
	}
}

// What was announced for a stream does not count for a later one with the same name, and a value that cannot be
// read announces nothing.
func TestAnnouncedForAnotherStream(t *testing.T) {
	t.Parallel()
	b := newWritten(t)
	b.announce(b.log, 7, at)
	must.Succeed(t, b.JS().DeleteStream(b.Ctx, bus.LogStream(realm)))
	if a, err := b.log.Announced(b.Ctx); err == nil {
		t.Errorf("the announcement for a stream that is gone is %+v", a)
	}
	again := b.open(b.JS())
	b.announces(again, 0, time.Time{})
	b.announce(again, 3, at)
	b.announces(again, 3, at)
	for _, value := range []string{"", "{", `{"position":"9"}`, `[]`} {
		b.putCut(value)
		b.announces(again, 0, time.Time{})
	}
	b.announce(again, 2, at)
	b.announces(again, 2, at)
	if err := b.log.Announce(b.Ctx, 8, at); err == nil {
		t.Error("a cut of a stream that is gone is announced")
	}
	b.announces(again, 2, at)
}

// An announcement beyond the end of the stream is taken back, down to where the stream begins. One that the stream can have
// been cut up to stays, and so does one that another process has made meanwhile.
func TestRetract(t *testing.T) {
	t.Parallel()
	b := newWritten(t)
	beyond := func() uint64 {
		t.Helper()
		revision, err := b.log.Beyond(b.Ctx)
		must.Succeed(t, err)
		return revision
	}
	retract := func(revision uint64) {
		t.Helper()
		if err := b.log.Retract(b.Ctx, revision, at); err != nil {
			t.Error(err)
		}
	}
	if beyond() > 0 {
		t.Error("there is no announcement")
	}
	for range 3 {
		if _, err := b.JS().Publish(b.Ctx, bus.LogSubject(realm), []byte("a message")); err != nil {
			t.Fatal(err)
		}
	}
	b.announce(b.log, 2, at)
	if beyond() > 0 {
		t.Error("the stream can have been cut up to sequence 2")
	}
	for _, position := range []uint64{3, 7} {
		b.announce(b.log, position, at)
		before := beyond()
		b.announce(b.other, position+1, at)
		retract(before)
		b.announces(b.log, position+1, at)
		retract(beyond())
		b.announces(b.log, 0, time.Time{})
	}
	if beyond() > 0 {
		t.Error("the announcement is taken back")
	}
	b.announce(b.log, 1, at)
	must.Succeed(t, b.log.Cut(b.Ctx, 1))
	b.announce(b.log, 9, at)
	retract(beyond())
	b.announces(b.log, 1, at)
}

// The announcement has the encoding that is documented, with which other versions read it.
func TestAnnouncementEncoding(t *testing.T) {
	t.Parallel()
	b := newWritten(t)
	b.announce(b.log, 7, at)
	entry, err := bus.ReadKey(b.Ctx, b.JS(), bus.WriterBucket, bus.CutKey(realm))
	var got map[string]any
	if err == nil {
		err = json.Unmarshal(entry.Value, &got)
	}
	created, ok := got["streamCreated"].(string)
	is, failed := time.Parse(time.RFC3339Nano, created)
	if err != nil || failed != nil || !ok || is.UnixNano() != b.log.Created() || got["position"] != 7.0 || got["at"] != "2026-05-04T03:02:01Z" || len(got) != 3 {
		t.Errorf("the announcement is %s, %v", entry.Value, errors.Join(err, failed))
	}
}

// A realm's key is deleted with its streams, and the keys of others stay.
func TestAnnouncementDeleted(t *testing.T) {
	t.Parallel()
	b := newWritten(t)
	b.announce(b.log, 7, at)
	other, err := eventlog.Open(b.Ctx, b.JS(), "other", 1, eventlog.NewKeys(testkit.Secrets(), "other"))
	must.Succeed(t, err)
	b.announce(other, 8, at)
	for range 2 {
		must.Succeed(t, bus.DeleteStreams(b.Ctx, b.JS(), realm, func() error { return nil }))
	}
	kv, err := b.JS().KeyValue(b.Ctx, bus.WriterBucket)
	must.Succeed(t, err)
	if keys, err := kv.Keys(b.Ctx); err != nil || len(keys) != 1 || keys[0] != bus.CutKey("other") {
		t.Errorf("the keys are %v, %v", keys, err)
	}
	again := b.open(b.JS())
	b.announces(again, 0, time.Time{})
	b.announce(again, 3, at)
	b.announces(again, 3, at)
}
