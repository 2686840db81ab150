package eventlog

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Keys of the metadata of a log's stream: the last position up to which messages may have
// been cut, and the time at which that was announced, in RFC 3339.
const (
	metaCut   = "coppice.cut"
	metaCutAt = "coppice.cut-at"
)

// Announcement says up to which position messages of a stream may have been cut, because
// they are archived. It is stored with the stream, so that every graph service can
// distinguish a cut from a loss. It is zero before the first cut.
type Announcement struct {
	Position uint64
	At       time.Time
}

// announcement reads the metadata of a stream. Metadata that cannot be read announce nothing.
func announcement(meta map[string]string) (a Announcement) {
	position, err := strconv.ParseUint(meta[metaCut], 10, 64)
	if err != nil {
		return a
	}
	at, _ := time.Parse(time.RFC3339, meta[metaCutAt]) // for operators only
	return Announcement{Position: position, At: at}
}

// Announce records in the metadata of the stream that the messages up to a position are
// archived, and may be cut. It must precede Cut: a stream that begins later than announced is
// damaged. An announcement for a later position stays.
func (l *Log) Announce(ctx context.Context, position uint64, now time.Time) error {
	info, err := l.info(ctx)
	if err != nil {
		return err
	}
	c := info.Config
	if announcement(c.Metadata).Position >= position {
		return nil
	}
	if c.Metadata = maps.Clone(c.Metadata); c.Metadata == nil {
		c.Metadata = map[string]string{}
	}
	c.Metadata[metaCut], c.Metadata[metaCutAt] = strconv.FormatUint(position, 10), now.UTC().Format(time.RFC3339)
	if _, err := l.js.UpdateStream(ctx, c); err != nil {
		return fmt.Errorf("log of realm %s: announce that sequence %d and those before it are cut: %w", l.realm, position, err)
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
