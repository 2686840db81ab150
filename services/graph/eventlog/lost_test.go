package eventlog_test

import (
	"errors"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// A log that went backwards is not waited for forever.
func TestLogBackwards(t *testing.T) {
	t.Parallel()
	b := newWritten(t)
	b.log.SetMaxLag(time.Millisecond)
	err := appendTo(b.Ctx, b.log, 2, 3)
	var broken *eventlog.BrokenError
	if !errors.As(err, &broken) || broken.Position != 2 {
		t.Errorf("got %v", err)
	}
	b.has()
}

// A log that lacks the newest message which its writer has appended, or followed, gets no further
// commit: nothing could be rebuilt from it.
func TestPurged(t *testing.T) {
	t.Parallel()
	writers := map[string]func(*written) *eventlog.Log{
		"the writer goes on": func(b *written) *eventlog.Log { return b.log },
		"a standby takes over": func(b *written) *eventlog.Log {
			followed := errors.New("followed")
			err := b.other.Follow(b.Ctx, 1, func(m eventlog.Message) error {
				if m.Position == 3 {
					return followed
				}
				return nil
			})
			if !errors.Is(err, followed) {
				b.Fatal(err)
			}
			return b.other
		},
	}
	for who, writer := range writers {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			b := newWritten(t)
			for i := range byte(3) {
				must.Succeed(t, appendTo(b.Ctx, b.log, uint64(i), i+1))
			}
			by := writer(b)
			s, err := b.JS().Stream(b.Ctx, bus.LogStream(realm))
			must.Succeed(t, err)
			must.Succeed(t, s.Purge(b.Ctx))
			err = appendTo(b.Ctx, by, 3, 4)
			if broken := (*eventlog.BrokenError)(nil); !errors.As(err, &broken) || broken.Position != 3 {
				t.Errorf("got %v", err)
			}
			if last, _, err := b.other.Last(b.Ctx); last != 3 || err != nil {
				t.Errorf("the stream ends at sequence %d: %v", last, err)
			}
		})
	}
}

// ofRealm is a commit of a realm id and an epoch, without events.
func ofRealm(realmID, epoch byte, sequence uint64, id byte) ([16]byte, []byte) {
	h := eventlog.Header{RealmID: [16]byte{realmID}, ID: [16]byte{id}, Epoch: uint64(epoch), Time: 1, FirstRevision: 1, Sequence: sequence, Key: 1}
	return h.ID, eventlog.NewBuilder(h).Bytes()
}

// A writer appends nothing to a log that does not have the commit which it continues, although the commits there are
// such that it would skip them: they are those of a realm that continues its log, or of a log that was rolled back.
func TestAnotherHistory(t *testing.T) {
	t.Parallel()
	for name, history := range map[string]func(*written) *eventlog.Log{
		"of a realm that continues the log": func(b *written) *eventlog.Log {
			l, err := eventlog.Begin(b.Ctx, b.JS(), realm, 1, 4, keys)
			for i := uint64(3); i < 6 && err == nil; i++ {
				id, c := ofRealm(2, 1, i+1, byte(100+i))
				_, err = l.Append(b.Ctx, i, id, c)
			}
			must.Succeed(b, err)
			return l
		},
		"of another realm": func(b *written) *eventlog.Log {
			l := b.open(b.JS())
			for i := range uint64(6) {
				id, c := ofRealm(2, 1, i+1, byte(100+i))
				if _, err := l.Append(b.Ctx, i, id, c); err != nil {
					b.Fatal(err)
				}
			}
			return l
		},
		"rolled back, with a foreign message": func(b *written) *eventlog.Log {
			l := b.open(b.JS())
			must.Succeed(b, appendTo(b.Ctx, l, 0, 1))
			b.store([]byte("foreign"))
			for i := uint64(2); i < 6; i++ {
				id, c := ofRealm(1, 2, i, byte(100+i))
				if _, err := l.Append(b.Ctx, i, id, c); err != nil {
					b.Fatal(err)
				}
			}
			return l
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newWritten(t)
			for i := range byte(3) {
				must.Succeed(t, appendTo(b.Ctx, b.log, uint64(i), i+1))
			}
			must.Succeed(t, b.JS().DeleteStream(b.Ctx, bus.LogStream(realm)))
			l := history(b)
			if err := appendTo(b.Ctx, b.log, 3, 4); !errors.Is(err, eventlog.ErrGone) && !errors.Is(err, eventlog.ErrFenced) {
				t.Errorf("got %v", err)
			}
			if last, _, err := l.Last(b.Ctx); last != 6 || err != nil {
				t.Errorf("the stream ends at sequence %d: %v", last, err)
			}
		})
	}
}

// A stream that was deleted, or created again, is another log: nothing is appended
// to it, and calls that wait return.
func TestStreamGone(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"deleted": false, "created again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newWritten(t)
			for i := range byte(2) {
				must.Succeed(t, appendTo(b.Ctx, b.log, uint64(i), i+1))
			}
			must.Succeed(t, b.JS().DeleteStream(b.Ctx, bus.LogStream(realm)))
			if again {
				b.open(b.JS())
			}
			if err := appendTo(b.Ctx, b.log, 2, 3); !errors.Is(err, eventlog.ErrGone) {
				t.Errorf("append: %v", err)
			}
			if _, _, err := b.log.Last(b.Ctx); !errors.Is(err, eventlog.ErrGone) {
				t.Errorf("last: %v", err)
			}
			err := b.log.Follow(b.Ctx, 3, func(eventlog.Message) error { return nil })
			if !errors.Is(err, eventlog.ErrGone) {
				t.Errorf("follow: %v", err)
			}
		})
	}
}
