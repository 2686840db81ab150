package past_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/past"
)

var keys = eventlog.NewKeys(testkit.Secrets(), "realm")

// log is a log in which the commit at each position n has the time 10n and, with one event, the revision n.
type log struct {
	past.Log
	last  uint64
	seek  uint64 // the result of a search
	lacks uint64 // the position that a read does not deliver; 0 for none
}

func (l *log) Readable(context.Context) (eventlog.Readable, error) {
	return eventlog.Readable{First: 1, Last: l.last}, nil
}

func (l *log) Seek(context.Context, uint64) (uint64, error) { return l.seek, nil }

func (l *log) SeekTime(context.Context, lifecycle.Time) (uint64, error) { return l.seek, nil }

func (l *log) Skips(context.Context, eventlog.Message, *eventlog.Header) (string, error) {
	return "", nil
}

func (l *log) Read(_ context.Context, from uint64, _, _ int, visit func(eventlog.Message) error) (uint64, error) {
	for at := from; at <= l.last; at++ {
		if at == l.lacks {
			continue
		}
		b := eventlog.NewBuilder(eventlog.Header{
			RealmID: [16]byte{1}, ID: [16]byte{byte(at)}, Epoch: 1, Time: lifecycle.Time(10 * at), FirstRevision: at, Sequence: at, Key: 1,
		})
		b.Begin(eventlog.Command{Actor: "test", Verb: "create"})
		n := &lifecycle.Node{UID: uid.MustParse(fmt.Sprint("uid-", at))}
		b.Add(&lifecycle.Event{Type: lifecycle.ObjectCreated, UID: n.UID, Object: lifecycle.Object{Node: n}}, n, "pods", []byte{})
		b.End(eventlog.CommandRef{}, nil)
		message, err := keys.Seal(b.Bytes(), at)
		if err != nil {
			return 0, err
		}
		if err := visit(eventlog.Message{Position: at, Data: message}); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// A search that returns an older commit than the wanted one, because the copy of the log that answered lacks
// messages, is an error that is tried again, and never an older state.
func TestSearchInLaggingCopy(t *testing.T) {
	t.Parallel()
	const revision, instant = 0, 1
	for name, c := range map[string]struct {
		log   log
		point [2]uint64
		want  uint64
		err   error
	}{
		"the revision":                 {log{last: 9, seek: 5}, [2]uint64{revision, 5}, 5, nil},
		"the time":                     {log{last: 9, seek: 5}, [2]uint64{instant, 55}, 5, nil},
		"the first":                    {log{last: 9, seek: 1}, [2]uint64{revision, 1}, 1, nil},
		"a time before the first":      {log{last: 9, seek: 1}, [2]uint64{instant, 5}, 0, past.ErrEarlier},
		"an older commit, by revision": {log{last: 9, seek: 4}, [2]uint64{revision, 5}, 0, past.ErrLacks},
		"an older commit, by time":     {log{last: 9, seek: 4}, [2]uint64{instant, 55}, 0, past.ErrLacks},
		"the first, by revision":       {log{last: 9, seek: 1}, [2]uint64{revision, 5}, 0, past.ErrLacks},
		"it is not delivered":          {log{last: 9, seek: 5, lacks: 5}, [2]uint64{revision, 5}, 0, past.ErrLacks},
	} {
		p := past.Point{Revision: c.point[1]}
		if c.point[0] == instant {
			p = past.Point{Time: lifecycle.Time(c.point[1])}
		}
		got, err := past.Search(t.Context(), &c.log, keys, p)
		if !errors.Is(err, c.err) || err == nil && got.Sequence != c.want {
			t.Errorf("%s: commit %d, %v; want %d, %v", name, got.Sequence, err, c.want, c.err)
		}
	}
}
