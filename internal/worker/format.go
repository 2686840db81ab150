package worker

import "fmt"

// Format is the version of the format of work messages: chunks of work, and calls of
// finalizers and agents. Absent, which is zero, means 1.
const Format = 1

// FormatError is returned for a message of a newer format. The message stays in its queue.
type FormatError struct {
	Subject string
	Format  uint32
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("the message on %s has version %d of the format of work, and this program handles versions up to %d: replace it by the version of Coppice of the graph service, or a newer one; the message stays in the queue", e.Subject, e.Format, Format)
}

// Known returns a FormatError if this program does not know the format of the message, which
// is a field of it. Run delivers such a message again, and never parks it: another
// program may handle it.
func (m *Message) Known(format uint32) error {
	if format > Format {
		return &FormatError{Subject: m.Subject, Format: format}
	}
	return nil
}
