package eventlog

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// SetMaxLag says how long a log may be behind.
func (l *Log) SetMaxLag(d time.Duration) { l.maxLag = d }

// SetStall sets the time after which messages that are not delivered count as lost.
func (l *Log) SetStall(d time.Duration) { l.stall = d }

// On returns the log in a stream whose configuration is not checked.
func On(js jetstream.JetStream, stream jetstream.Stream, realm string, keys *Keys) (*Log, error) {
	return newLog(js, realm, keys)(stream, nil)
}
