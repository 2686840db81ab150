package lifecycle_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// An error that is too large loses text, never its reason, its index or the time
// to retry.
func TestTruncate(t *testing.T) {
	t.Parallel()
	const limit = 4 << 10
	small := &lifecycle.Error{Reason: api.ErrInvalid, Message: "short", Causes: []lifecycle.Cause{{Field: "spec", Message: "wrong"}}}
	if lifecycle.Truncate(small, limit) != small {
		t.Error("an error that fits was copied")
	}
	for name, e := range map[string]*lifecycle.Error{
		"message": {Message: strings.Repeat("ä", limit)},
		"name":    {Message: "m", Name: strings.Repeat("n", limit), Namespace: strings.Repeat("n", limit), Resource: strings.Repeat("r", limit), UID: strings.Repeat("u", limit)},
		"causes":  {Message: "m", Causes: make([]lifecycle.Cause, limit)},
		"cause":   {Message: "m", Causes: []lifecycle.Cause{{Reason: "r", Field: strings.Repeat("f", limit), Message: strings.Repeat("m", limit)}}},
	} {
		e.Reason, e.Index, e.RetryAfter = api.ErrInvalid, 7, time.Second
		for i := range e.Causes {
			e.Causes[i].Reason = "FieldValueInvalid"
		}
		short := lifecycle.Truncate(e, limit)
		size := len(short.Message) + len(short.Resource) + len(short.Namespace) + len(short.Name) + len(short.UID)
		for _, c := range short.Causes {
			size += len(c.Reason) + len(c.Field) + len(c.Message)
		}
		if size > limit {
			t.Errorf("%s: %d bytes of text, want at most %d", name, size, limit)
		}
		if short.Reason != e.Reason || short.Index != e.Index || short.RetryAfter != e.RetryAfter || short.Message == "" {
			t.Errorf("%s: truncated to %+v", name, short)
		}
		if !utf8.ValidString(short.Message) {
			t.Errorf("%s: a UTF-8 sequence was split", name)
		}
		if len(e.Causes) > 0 && len(short.Causes) == 0 {
			t.Errorf("%s: no cause is left", name)
		}
	}
}
