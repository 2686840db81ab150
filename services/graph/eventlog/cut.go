package eventlog

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
)

// Announcement says up to which position messages of a stream may have been cut, because
// they are archived. Every graph service can so distinguish a cut from a loss. It is zero
// before the first cut.
//
// It is the value of bus.CutKey, and not in the metadata of the stream: a NATS server that is
// killed while it stores the configuration of a stream does not load the stream any more.
type Announcement struct {
	Position uint64    `json:"position"`
	At       time.Time `json:"at"` // for operators only
	// Created is when the stream was created. It distinguishes the stream from others with the same name.
	Created time.Time `json:"streamCreated"`
}

// Keys of the metadata of a log's stream. Versions that did not use bus.CutKey have announced cuts there.
const (
	metaCut   = "coppice.cut"
	metaCutAt = "coppice.cut-at"
)

// inMetadata returns what the metadata of a stream announce. Metadata that cannot be read announce nothing.
func inMetadata(meta map[string]string) (a Announcement) {
	position, err := strconv.ParseUint(meta[metaCut], 10, 64)
	if err != nil {
		return a
	}
	at, _ := time.Parse(time.RFC3339, meta[metaCutAt])
	return Announcement{Position: position, At: at}
}

// Announced returns the last announcement for the stream. It sends two requests, to the NATS servers that lead the
// bucket and the stream. A stream that begins later than announced may be damaged.
func (l *Log) Announced(ctx context.Context) (Announcement, error) {
	a, _, _, err := l.announced(ctx)
	return a, err
}

// announced is Announced, and returns the revision of the key, and the stream. A value that cannot be
// read, or is for another stream, announces nothing.
func (l *Log) announced(ctx context.Context) (a Announcement, revision uint64, info *jetstream.StreamInfo, err error) {
	// The key is read first: what is written behind its revision is then about a stream that was the log's at that time.
	entry, err := bus.ReadKey(ctx, l.js, bus.WriterBucket, bus.CutKey(l.realm))
	if err != nil {
		return a, 0, nil, fmt.Errorf("log of realm %s: what was cut: %w", l.realm, err)
	}
	if info, err = l.info(ctx); err != nil {
		return a, 0, nil, err
	}
	if json.Unmarshal(entry.Value, &a) != nil || !a.Created.Equal(info.Created) {
		a = Announcement{}
	}
	if before := inMetadata(info.Config.Metadata); before.Position > a.Position {
		a = before
	}
	return a, entry.Revision, info, nil
}

// Announce records that the messages up to a position are archived, and may be cut. It must precede Cut: a
// stream that begins later than announced may be damaged. An announcement for a later position stays.
func (l *Log) Announce(ctx context.Context, position uint64, now time.Time) error {
	err := l.announce(ctx, position, now)
	if err != nil && bus.Classify(err) == bus.Conflict { // another process has announced a cut meanwhile
		err = l.announce(ctx, position, now)
	}
	return err
}

func (l *Log) announce(ctx context.Context, position uint64, now time.Time) error {
	a, revision, info, err := l.announced(ctx)
	if err != nil || a.Position >= position {
		return err
	}
	kv, err := l.js.KeyValue(ctx, bus.WriterBucket)
	if err == nil {
		err = l.put(ctx, kv, info, position, now, revision)
	}
	if err != nil {
		return fmt.Errorf("log of realm %s: announce that sequence %d and those before it are cut: %w", l.realm, position, err)
	}
	return nil
}

// put stores an announcement for a stream, if the key has a revision.
func (l *Log) put(ctx context.Context, kv jetstream.KeyValue, info *jetstream.StreamInfo, position uint64, now time.Time, revision uint64) error {
	value, err := json.Marshal(Announcement{Position: position, At: now.UTC().Truncate(time.Second), Created: info.Created})
	if err == nil {
		_, err = kv.Update(ctx, bus.CutKey(l.realm), value, revision)
	}
	return err
}

// Beyond returns the revision of the announcement for the stream if that is up to a position which the stream does not have, and
// otherwise zero. A cut never removes the last message: an earlier backup of the stream was restored, unless the server that leads
// the stream lags (MaxLag). Announcements in the metadata of a stream do not count.
func (l *Log) Beyond(ctx context.Context) (revision uint64, err error) {
	a, revision, info, err := l.announced(ctx)
	if err != nil || a.Position < info.State.LastSeq || a == inMetadata(info.Config.Metadata) {
		return 0, err
	}
	return revision, nil
}

// Retract lowers the announcement that Beyond has returned to what the stream lacks, or deletes it: otherwise it would hide a later loss of
// first messages. It does nothing if the announcement was changed since.
func (l *Log) Retract(ctx context.Context, revision uint64, now time.Time) error {
	a, is, info, err := l.announced(ctx)
	if err != nil || is != revision || a.Position+1 == info.State.FirstSeq {
		return err
	}
	kv, err := l.js.KeyValue(ctx, bus.WriterBucket)
	switch {
	case err != nil:
	case info.State.FirstSeq > 1:
		err = l.put(ctx, kv, info, info.State.FirstSeq-1, now, revision)
	default:
		err = kv.Delete(ctx, bus.CutKey(l.realm), jetstream.LastRevision(revision))
	}
	if err != nil && bus.Classify(err) != bus.Conflict { // otherwise another process has changed it
		return fmt.Errorf("log of realm %s: take back the announcement that sequence %d and those before it are cut: %w", l.realm, a.Position, err)
	}
	return nil
}

// Cut removes the messages of the stream up to a position, which must not be the last and
// must have been announced. The caller makes sure that the commits are archived, and that
// nothing needs them in the stream. Cut is idempotent, and does not affect appends.
func (l *Log) Cut(ctx context.Context, position uint64) error {
	if err := l.stream.Purge(ctx, jetstream.WithPurgeSequence(position+1)); err != nil {
		return fmt.Errorf("log of realm %s: cut the messages up to sequence %d: %w", l.realm, position, err)
	}
	return nil
}
