package lifecycle_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// TestErrorsAreReportedInFull: what a client reads from a status is what was refused.
func TestErrorsAreReportedInFull(t *testing.T) {
	t.Parallel()
	sent := &lifecycle.Error{
		Reason: lifecycle.ReasonInvalid, Message: `pods "a" is invalid`,
		Resource: "pods", Namespace: "default", Name: "a", UID: "u",
		Causes:     []lifecycle.Cause{{Reason: "FieldValueRequired", Field: "metadata.name", Message: "Required value"}},
		RetryAfter: 1500 * time.Millisecond, Index: 7,
	}
	if got := api.ErrorOf(sent.Status()); !reflect.DeepEqual(got, sent) {
		t.Errorf("sent %+v, received %+v", sent, got)
	}
	if code := sent.Status().GetCode(); code != 422 {
		t.Errorf("code %d, want 422", code)
	}
	err := fmt.Errorf("create: %w", sent)
	if !errors.Is(err, lifecycle.ReasonInvalid) || errors.Is(err, lifecycle.ReasonNotFound) || errors.Is(err, errors.New("Invalid")) {
		t.Errorf("%v does not match its reason alone", err)
	}
	if sent.Error() != sent.Message || lifecycle.ReasonInvalid.Error() != "Invalid" {
		t.Errorf("%v has another text", sent)
	}
}

// TestReasonsHaveCodes: each reason has its code, and those that say so are made
// by the rules.
func TestReasonsHaveCodes(t *testing.T) {
	t.Parallel()
	for reason, code := range map[lifecycle.Reason]uint32{
		lifecycle.ReasonBadRequest: 400, lifecycle.ReasonForbidden: 403, lifecycle.ReasonNotFound: 404,
		lifecycle.ReasonUnknownKind: 404, lifecycle.ReasonMethodNotAllowed: 405, lifecycle.ReasonAlreadyExists: 409,
		lifecycle.ReasonConflict: 409, lifecycle.ReasonExpired: 410, lifecycle.ReasonRequestEntityTooLarge: 413,
		lifecycle.ReasonInvalid: 422, lifecycle.ReasonTooManyRequests: 429, lifecycle.ReasonInternalError: 500,
		lifecycle.ReasonServiceUnavailable: 503, lifecycle.ReasonTimeout: 504, lifecycle.ReasonOutcomeUnknown: 410,
	} {
		if got := reason.Code(); got != code {
			t.Errorf("%s has code %d, want %d", reason, got, code)
		}
	}
	if e := lifecycle.ErrUnknownKind("things"); e.Reason != lifecycle.ReasonUnknownKind || e.Resource != "things" {
		t.Errorf("unknown kind: %+v", e)
	}
	if e := lifecycle.ErrBadRequest("no %s", "sense"); e.Reason != lifecycle.ReasonBadRequest || e.Message != "no sense" {
		t.Errorf("bad request: %+v", e)
	}
}
