// Package callstate puts the state of the call of an external finalizer or an agent into words, which are the
// same in the warnings of the graph service and in the commands of coppice.
package callstate

import (
	"fmt"
	"strings"
	"time"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Words describes the state of a call in a few words, such as "working since 10:33:02". It returns "" if the
// state is not known. clock formats times.
func Words(s *coppicev1.CallStatus, clock func(time.Time) string) string {
	at := func(before string, micro int64) string {
		if micro == 0 {
			return ""
		}
		return before + clock(time.UnixMicro(micro))
	}
	said := ""
	switch s.GetState() {
	case coppicev1.CallState_CALL_STATE_UNSPECIFIED:
		if s.GetFailures() > 0 { // of any call
			return "calls fail" + because(s) + at("; next retry at ", s.GetNextRetry())
		}
		return ""
	case coppicev1.CallState_CALL_STATE_PARKED:
		return "parked after " + times(s.GetAttempts(), "attempt") + because(s)
	case coppicev1.CallState_CALL_STATE_FAILED:
		return failed(s) + at("; next retry at ", s.GetNextRetry())
	case coppicev1.CallState_CALL_STATE_NO_CONSUMER:
		said = "no consumer"
	case coppicev1.CallState_CALL_STATE_SILENT:
		said = "consumer silent" + at(" since ", s.GetSilentSince())
	case coppicev1.CallState_CALL_STATE_QUEUED:
		said = "waiting in the queue"
		if s.GetUnasked() {
			said += "; no program asks for its calls now"
		}
	case coppicev1.CallState_CALL_STATE_WORKING:
		said = "working" + at(" since ", s.GetWorkingSince())
	}
	if s.GetFailures() > 0 {
		said += "; " + failed(s)
	}
	return said
}

func failed(s *coppicev1.CallStatus) string {
	return "failed " + times(max(s.GetFailures(), 1), "time") + because(s)
}

func because(s *coppicev1.CallStatus) string {
	if s.GetLastError() == "" {
		return ""
	}
	return ": " + strings.Join(strings.Fields(s.GetLastError()), " ")
}

func times(n uint32, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
