package console

import (
	"context"
	"iter"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// slowLog delivers the commits of a channel to those who follow it. Reads of causes wait until their context ends.
type slowLog struct {
	client.LogClient
	commits chan client.LogCommit
	asked   chan struct{} // receives when a cause is read
}

func (*slowLog) Last(context.Context, ...client.CommitOption) (uint64, error) { return 10, nil }

func (l *slowLog) Read(ctx context.Context, opts ...client.LogOption) iter.Seq2[client.LogCommit, error] {
	var of client.LogOptions
	for _, o := range opts {
		o.ApplyToLog(&of)
	}
	return func(yield func(client.LogCommit, error) bool) {
		if !of.Follow {
			l.asked <- struct{}{}
			<-ctx.Done()
			return
		}
		for {
			select {
			case c := <-l.commits:
				if !yield(c, nil) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// While the causes of rows are read, a live view reads the log further; it ends with its context.
func TestLiveEventsWhileCausesAreRead(t *testing.T) {
	t.Parallel()
	log := &slowLog{commits: make(chan client.LogCommit), asked: make(chan struct{}, 1)}
	h, err := history.Open(t.Context(), log, func(_, kind string) string { return kind })
	must.Succeed(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	l := &liveEvents{r: &realm{name: "default"}, h: h, causes: h.Apart(), last: 10, sent: 10, taken: make(chan struct{}, 1), came: make(chan struct{}, 1)}
	l.next = l.begin()
	failed, ended := make(chan error, 1), make(chan error, 1)
	go func() { failed <- l.read(ctx, 11) }()
	go func() { ended <- l.send(ctx, failed, func(*view.Events) {}) }()
	for at := uint64(11); at < 200; at++ { // the cause of each is before these commits
		e := &coppicev1.Event{
			Reason: coppicev1.Reason_REASON_OWNER_ABSENT, Cause: 1,
			Event: &coppicev1.Event_Created{Created: &coppicev1.ObjectCreated{Node: &coppicev1.Node{Kind: "Pod", Name: "p", Uid: make([]byte, 16)}}},
		}
		c := client.LogCommit{Sequence: at, Commit: &client.Commit{FirstRevision: at, Time: int64(at) * 1e6, Commands: []*coppicev1.Command{{Actor: "ana"}}, Events: []*coppicev1.Event{e}}}
		select {
		case log.commits <- c:
		case <-t.Context().Done():
			t.Fatal("the log is not read further")
		}
		if at == 11 {
			receive(t, "the read of a cause", log.asked)
		}
	}
	cancel()
	_ = receive(t, "the end of the messages", ended)
	_ = receive(t, "the end of the reader", failed)
}
