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
		Reason: api.ErrInvalid, Message: `pods "a" is invalid`,
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
	if !errors.Is(err, api.ErrInvalid) || errors.Is(err, api.ErrNotFound) || errors.Is(err, errors.New("Invalid")) {
		t.Errorf("%v does not match its reason alone", err)
	}
	if sent.Error() != sent.Message || api.ErrInvalid.Error() != "Invalid" {
		t.Errorf("%v has another text", sent)
	}
}

// TestReasonsHaveCodes: each reason has its code, and those that say so are made
// by the rules.
func TestReasonsHaveCodes(t *testing.T) {
	t.Parallel()
	for reason, code := range map[lifecycle.Reason]uint32{
		api.ErrBadRequest: 400, api.ErrForbidden: 403, api.ErrNotFound: 404,
		api.ErrUnknownKind: 404, api.ErrMethodNotAllowed: 405, api.ErrAlreadyExists: 409,
		api.ErrConflict: 409, api.ErrExpired: 410, api.ErrRequestEntityTooLarge: 413,
		api.ErrInvalid: 422, api.ErrTooManyRequests: 429, api.ErrInternalError: 500,
		api.ErrServiceUnavailable: 503, api.ErrTimeout: 504, api.ErrOutcomeUnknown: 410,
	} {
		if got := reason.Code(); got != code {
			t.Errorf("%s has code %d, want %d", reason, got, code)
		}
	}
	if e := lifecycle.ErrUnknownKind("things"); e.Reason != api.ErrUnknownKind || e.Resource != "things" {
		t.Errorf("unknown kind: %+v", e)
	}
	if e := lifecycle.ErrBadRequest("no %s", "sense"); e.Reason != api.ErrBadRequest || e.Message != "no sense" {
		t.Errorf("bad request: %+v", e)
	}
}
