package eventlog

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Cut removes the messages of the stream up to a position. It must not be the last. The caller makes sure that
// the commits are archived, and that nothing needs them in the stream. Cut is idempotent, and
// does not affect appends.
func (l *Log) Cut(ctx context.Context, position uint64) error {
	if err := l.stream.Purge(ctx, jetstream.WithPurgeSequence(position+1)); err != nil {
		return fmt.Errorf("log of realm %s: cut the messages up to sequence %d: %w", l.realm, position, err)
	}
	return nil
}
