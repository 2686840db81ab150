package bus

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// Connected returns nil while all connections are connected to NATS, and otherwise why one
// is not, if that is known. A service that is not connected is not ready.
func Connected(conns ...*nats.Conn) error {
	for _, nc := range conns {
		switch {
		case nc == nil || nc.IsConnected():
		case nc.LastError() != nil:
			return fmt.Errorf("not connected to NATS: %w", nc.LastError())
		default:
			return errors.New("not connected to NATS")
		}
	}
	return nil
}
