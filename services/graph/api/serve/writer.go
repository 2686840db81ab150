package serve

import (
	"time"

	"github.com/coppice-gc/coppice/services/graph/writer"
)

// Writer is the Server of the process that writes the realm.
type Writer struct {
	*Server
	// Commands decides commands, and appends what they change to the log.
	Commands *writer.Writer
	// Now is the clock.
	Now func() time.Time
}

// NewWriter returns a Server for what only the writer can do. now is the clock; time.Now if nil.
func NewWriter(s *Server, commands *writer.Writer, now func() time.Time) *Writer {
	if now == nil {
		now = time.Now
	}
	return &Writer{Server: s, Commands: commands, Now: now}
}
