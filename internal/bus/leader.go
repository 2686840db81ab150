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
	request, err := json.Marshal(struct {
		Seq uint64 `json:"seq"`
	}{sequence})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()
	m, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+stream, request)
	if err != nil {
		return nil, fmt.Errorf("stream %s: sequence %d from the leader: %w", stream, sequence, err)
	}
	var reply struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Data []byte `json:"data"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &reply); err != nil {
		return nil, fmt.Errorf("stream %s: sequence %d from the leader: %w", stream, sequence, err)
	}
	switch {
	case reply.Error != nil && reply.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, jetstream.ErrMsgNotFound
	case reply.Error != nil:
		return nil, fmt.Errorf("stream %s: sequence %d from the leader: %w", stream, sequence, reply.Error)
	}
	return reply.Message.Data, nil
}
