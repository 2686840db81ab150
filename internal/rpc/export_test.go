package rpc

import (
	"weak"

	"github.com/nats-io/nats.go"
)

// Known reports whether the waits of a connection are kept.
func Known(nc weak.Pointer[nats.Conn]) bool {
	connsMu.Lock()
	defer connsMu.Unlock()
	return conns[nc] != nil
}
