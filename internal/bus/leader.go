package bus

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ReadFromLeader reads a message of a stream from the NATS server that leads it. A direct get
// is answered by any server that has a copy of the stream, and so may lack a message that the
// leader has. The error is jetstream.ErrMsgNotFound if the leader does not have the message. A
// request without an answer, as while there is no leader, fails after 5 s.
func ReadFromLeader(ctx context.Context, nc *nats.Conn, stream string, sequence uint64) (data []byte, err error) {
	_, data, err = NextFromLeader(ctx, nc, stream, sequence, "")
	return data, err
}

// NextFromLeader is ReadFromLeader for the first message of a subject from a sequence on.
func NextFromLeader(ctx context.Context, nc *nats.Conn, stream string, from uint64, subject string) (sequence uint64, data []byte, err error) {
	request, err := json.Marshal(struct {
		Seq     uint64 `json:"seq"`
		NextFor string `json:"next_by_subj,omitempty"`
	}{from, subject})
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()
	var reply struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Sequence uint64 `json:"seq"`
			Data     []byte `json:"data"`
		} `json:"message"`
	}
	m, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+stream, request)
	if err == nil {
		err = json.Unmarshal(m.Data, &reply)
	}
	switch {
	case err != nil:
	case reply.Error != nil && reply.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return 0, nil, jetstream.ErrMsgNotFound
	case reply.Error != nil:
		err = reply.Error
	default:
		return reply.Message.Sequence, reply.Message.Data, nil
	}
	return 0, nil, fmt.Errorf("stream %s: sequence %d from the leader: %w", stream, from, err)
}
