package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Extent is what the stream of a log has, according to the NATS server that leads it.
type Extent struct {
	First, Last uint64 // positions; First is Last+1 if there is no message
	FirstTime   time.Time
	Messages    uint64
	Bytes       uint64
	Replicas    int    // that the stream should have
	Copies      int    // servers that have it now; one that NATS believes to be current may be some messages behind
	Server      string // the name of the server; "" unless the stream is in a cluster
	// Current are the names of the servers that have all messages, as NATS believes, Server among them; nil
	// if there is one copy.
	Current []string
	// Missing are the positions between First and Last without a message that the server names, at most
	// maxMissing of them, in order, and LastMissing is the last one. Gaps is the number of all; AllNamed says
	// that the server names all.
	Missing     []uint64
	LastMissing uint64
	Gaps        uint64
	AllNamed    bool
}

// maxMissing is the maximum number of missing positions that an Extent names.
const maxMissing = 1000

// Extent returns what the stream has now. The error is ErrGone if it is not the stream that
// was opened.
func (l *Log) Extent(ctx context.Context) (e Extent, err error) {
	info, err := l.info(ctx)
	if err != nil {
		return e, err
	}
	gaps := func(s *jetstream.StreamState) uint64 {
		return max(uint64(s.NumDeleted), s.LastSeq+1-s.FirstSeq-s.Msgs)
	}
	if info.State.LastSeq > 0 && gaps(&info.State) > 0 {
		if info, err = l.info(ctx, jetstream.WithDeletedDetails(true)); err != nil {
			return e, err
		}
	}
	s := &info.State
	e = Extent{First: s.FirstSeq, FirstTime: s.FirstTime, Last: s.LastSeq, Messages: s.Msgs, Bytes: s.Bytes, Replicas: info.Config.Replicas, Copies: copies(info.Cluster)}
	if info.Cluster != nil && info.Cluster.Name != "" { // a server on its own names itself, but no cluster
		e.Server = info.Cluster.Leader
		e.Current = current(info.Cluster)
	}
	if s.LastSeq > 0 {
		e.Gaps = gaps(s)
	}
	slices.Sort(s.Deleted)
	e.Missing, e.AllNamed = s.Deleted[:min(len(s.Deleted), maxMissing)], uint64(len(s.Deleted)) == e.Gaps
	if n := len(s.Deleted); n > 0 {
		e.LastMissing = s.Deleted[n-1]
	}
	return e, nil
}

// current returns the names of the servers that have all messages, nil if there is one copy or no
// leader.
func current(c *jetstream.ClusterInfo) (names []string) {
	if c.Leader == "" || len(c.Replicas) == 0 {
		return nil
	}
	names = append(names, c.Leader)
	for _, p := range c.Replicas {
		if p.Current && !p.Offline && p.Lag == 0 {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

// copies returns the number of servers that have a stream, and that NATS believes to be current.
func copies(c *jetstream.ClusterInfo) int {
	if c == nil || c.Name == "" {
		return 1
	}
	n := 0
	if c.Leader != "" {
		n++
	}
	for _, p := range c.Replicas {
		if p.Current && !p.Offline {
			n++
		}
	}
	return n
}

// Missed returns the number of messages that the stream lacks of those that it must have:
// those from the position begins up to its end.
func (e *Extent) Missed(begins uint64) uint64 {
	if e.Last > 0 && e.First > begins {
		return e.Gaps + e.First - begins
	}
	return e.Gaps
}

// Damage returns a BrokenError if the stream lacks messages that it must have: those from
// the position begins up to its end. It returns nil for an empty stream.
func (e *Extent) Damage(begins uint64) *BrokenError {
	count := e.Missed(begins)
	if count == 0 {
		return nil
	}
	at, last := uint64(0), uint64(0)
	if len(e.Missing) > 0 {
		at, last = e.Missing[0], max(e.LastMissing, e.Missing[len(e.Missing)-1])
	}
	if e.First > begins {
		at, last = begins, max(last, e.First-1)
	}
	where := ""
	if e.Server != "" {
		where = " on the NATS server " + e.Server
	}
	if last == 0 {
		return &BrokenError{Position: e.First, What: fmt.Sprintf("%d messages from sequence %d to %d are missing%s", count, e.First, e.Last, where)}
	}
	return &BrokenError{Position: at, Last: last, What: fmt.Sprintf("%d messages from sequence %d to %d are missing%s", count, at, last, where)}
}

// info returns the information about the stream that was opened, and otherwise ErrGone.
func (l *Log) info(ctx context.Context, opts ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	info, err := l.stream.Info(ctx, opts...)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, ErrGone
	}
	if err != nil {
		return nil, fmt.Errorf("log of realm %s: %w", l.realm, err)
	}
	if info.Created.UnixNano() != l.created {
		return nil, ErrGone
	}
	return info, nil
}
