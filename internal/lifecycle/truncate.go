package lifecycle

import (
	"fmt"
	"unicode/utf8"
)

// Truncate returns e if its texts have at most limit bytes in all, and otherwise
// a copy of it that does: the message is cut first to a quarter of the limit, then
// causes are left out. The reason, the index and the time to retry are always kept.
// The limit is at least 1 KiB.
func Truncate(e *Error, limit int) *Error {
	size := len(e.Message) + len(e.Resource) + len(e.Namespace) + len(e.Name) + len(e.UID)
	for _, c := range e.Causes {
		size += sizeOf(c)
	}
	if size <= limit {
		return e
	}
	short := *e
	short.Message = cut(e.Message, limit/4)
	name := limit / 32
	short.Resource, short.Namespace = cut(e.Resource, name), cut(e.Namespace, name)
	short.Name, short.UID = cut(e.Name, name), cut(e.UID, name)
	short.Causes = nil
	rest := limit / 2
	for _, c := range e.Causes {
		c = Cause{Reason: cut(c.Reason, name), Field: cut(c.Field, name), Message: cut(c.Message, limit/16)}
		if rest -= sizeOf(c); rest < 0 {
			break
		}
		short.Causes = append(short.Causes, c)
	}
	return &short
}

func sizeOf(c Cause) int { return len(c.Reason) + len(c.Field) + len(c.Message) }

// cut returns s if it has at most limit bytes, and otherwise its beginning, with
// a note of how long it was. It does not split a UTF-8 sequence.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	note := fmt.Sprintf("... (truncated; %d bytes)", len(s))
	end := max(0, limit-len(note))
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + note
}
