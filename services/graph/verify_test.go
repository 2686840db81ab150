package graph_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
)

// A verification reads a log with more messages than a pull consumer buffers, and reads it
// more slowly than the server sends it. It must not become a slow consumer: no message is
// dropped and read again.
func TestVerifyIsNoSlowConsumer(t *testing.T) {
	t.Parallel()
	server := newInstallation(t)
	nc := server.connect()
	var slow atomic.Int64
	for _, c := range []*nats.Conn{nc.log, nc.answers} {
		c.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrSlowConsumer) {
				slow.Add(1)
			}
		})
	}
	serve(t, nc, t.TempDir(), nil).writing()
	c := server.application()
	random := rand.NewChaCha8([32]byte{})
	const n, size = 700, 4 << 10
	for i := range n {
		text := make([]byte, size)
		_, _ = random.Read(text)
		o := configMap(fmt.Sprintf("c-%03d", i))
		o.Spec = fmt.Appendf(nil, `{"text":%q}`, hex.EncodeToString(text))
		put(server.Ctx, t, c, o)
	}
	for range 3 {
		if v := server.verify(); v.GetDifference() != "" || v.GetEvents() < n {
			t.Errorf("verified: %v", v)
		}
	}
	if got := slow.Load(); got != 0 {
		t.Errorf("%d slow consumer errors", got)
	}
}
