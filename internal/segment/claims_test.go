package segment

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/codec/envelope"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// A small message whose compressed block claims more than a commit can have is refused before
// memory is allocated for it.
func TestHugeClaim(t *testing.T) {
	t.Parallel()
	commit, err := proto.MarshalOptions{Deterministic: true}.Marshal(&coppicev1.Commit{
		RealmId: make([]byte, 16), Sequence: 1, FirstRevision: 1, Time: 1, Epoch: 1, Id: make([]byte, 16),
		Events: []*coppicev1.Event{{Event: &coppicev1.Event_Created{Created: &coppicev1.ObjectCreated{Body: &coppicev1.Body{Spec: make([]byte, MaxMessage)}}}}},
	})
	must.Succeed(t, err)
	message := envelope.Seal(commit, 1, func([]byte) (code [envelope.MACSize]byte) { return code })
	if len(message) > MaxMessage/4 {
		t.Fatalf("the message has %d bytes", len(message))
	}
	var c chain
	if _, err := c.open(1, message); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("opened: %v", err)
	}
	if cap(c.room) > 0 {
		t.Errorf("%d bytes were allocated", cap(c.room))
	}
}
