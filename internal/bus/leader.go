package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// LeaderRead names a message of a stream: the one at Sequence, the first one from Next on, of the subject Subject
// unless that is empty, or the last one with the subject Last.
type LeaderRead struct {
	Stream         string
	Sequence, Next uint64
	Subject, Last  string
}

// ReadFromLeader reads a message of a stream from the NATS server that leads it. A direct get
// is answered by any server that has a copy of the stream, and so may lack a message that the
// leader has. The error is jetstream.ErrMsgNotFound if the leader does not have the message. A
// request without an answer, as while there is no leader, fails after 5 s.
func ReadFromLeader(ctx context.Context, nc *nats.Conn, r LeaderRead) (m DirectMessage, err error) {
	if m, err = readFromLeader(ctx, nc, r); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		err = fmt.Errorf("stream %s: sequence %d%s from the leader: %w", r.Stream, max(r.Sequence, r.Next), r.Last, err)
	}
	return m, err
}

func readFromLeader(ctx context.Context, nc *nats.Conn, r LeaderRead) (m DirectMessage, err error) {
	filter := r.Subject
	if r.Next > 0 && filter == "" {
		filter = ">"
	}
	request, err := json.Marshal(struct {
		Seq     uint64 `json:"seq,omitempty"`
		NextFor string `json:"next_by_subj,omitempty"`
		LastFor string `json:"last_by_subj,omitempty"`
	}{max(r.Sequence, r.Next), filter, r.Last})
	if err != nil {
		return m, err
	}
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()
	answer, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+r.Stream, request)
	if err != nil {
		return m, err
	}
	var reply struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(answer.Data, &reply); err != nil {
		return m, err
	}
	switch {
	case reply.Error != nil && reply.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return m, jetstream.ErrMsgNotFound
	case reply.Error != nil:
		return m, reply.Error
	}
	return DirectMessage{Sequence: reply.Message.Seq, Subject: reply.Message.Subject, Data: reply.Message.Data, Time: reply.Message.Time}, nil
}
