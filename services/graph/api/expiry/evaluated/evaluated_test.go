package evaluated

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// What is known of a policy is that of its last evaluation on all objects, also while two scanners
// evaluate it. A failure is known until an evaluation ends; what was deleted is counted.
func TestEvaluations(t *testing.T) {
	t.Parallel()
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	e := New(start)
	policy := &lifecycle.Node{UID: "p", Name: "old", Generation: 3}
	add := func(scanner int64, cursor, next string, matched uint64, err *lifecycle.Error) *coppicev1.ExpiryStatus {
		page := &Page{Of: policy, Cursor: []byte(next)}
		page.Examined, page.Matched, page.Deleted = 10, matched, 1
		e.Add(&coppicev1.ExamineRequest{Now: scanner, Cursor: []byte(cursor)}, page, err, start.Add(time.Hour))
		return e.Status(policy)
	}
	check := func(is *coppicev1.ExpiryStatus, examined, matched, deleted uint64, failure string) {
		t.Helper()
		if is.GetExamined() != examined || is.GetMatched() != matched || is.GetDeleted() != deleted || is.GetError() != failure {
			t.Errorf("it is %v, want %d of %d, %d deleted, error %q", is, matched, examined, deleted, failure)
		}
	}
	check(e.Status(policy), 0, 0, 0, "")
	check(add(1, "", "b", 1, nil), 0, 0, 1, "")
	check(add(2, "", "b", 1, nil), 0, 0, 2, "")
	is := add(1, "b", "", 1, nil)
	if check(is, 20, 2, 3, ""); is.GetEvaluated() == 0 || is.GetGeneration() != 3 || is.GetPolicy() != "old" || is.GetSince() != start.UnixMicro() {
		t.Errorf("it is %v", is)
	}
	check(add(2, "b", "c", 1, nil), 20, 2, 4, "")
	check(add(2, "c", "", 1, nil), 30, 3, 5, "")
	check(add(3, "", "b", 1, nil), 30, 3, 6, "")
	check(add(3, "b", "c", 1, &lifecycle.Error{Message: "it is broken"}), 30, 3, 7, "it is broken")
	check(add(3, "c", "", 1, nil), 30, 3, 8, "it is broken") // its second page is missing
	check(add(4, "", "", 7, nil), 10, 7, 9, "")

	// The status does not name the objects on which the condition has no result, and the reply to the scanner does.
	for fail, want := range map[error]string{errors.New("no such key: data"): "no such key: data", &state.UnreadableError{}: "the object cannot be decoded"} {
		page := &Page{Of: policy}
		page.Fail(lifecycle.Key{Kind: &lifecycle.Kind{KindSpec: lifecycle.KindSpec{Plural: "secrets"}}, Name: "token"}, fail)
		e.Add(&coppicev1.ExamineRequest{Now: 5}, page, nil, start)
		if is := e.Status(policy); is.GetFailure() != want || is.GetFailed() != 1 {
			t.Errorf("it is %v, want %q", is, want)
		}
		if text := page.Reply().GetFailure(); !strings.Contains(text, "token") {
			t.Errorf("the reply is %q", text)
		}
	}

	// Scanners that end in between, and policies that are deleted, leave nothing behind.
	for i := range int64(10 * maxInProgress) {
		add(100+i, "", "b", 1, nil)
	}
	if n := len(e.of["p"].running); n > maxInProgress {
		t.Errorf("%d evaluations are in progress", n)
	}
	for i := range 2 * maxRemembered {
		e.Add(&coppicev1.ExamineRequest{}, &Page{Of: &lifecycle.Node{UID: uid.UID(fmt.Sprint(i))}}, nil, start)
	}
	if len(e.of) > maxRemembered {
		t.Errorf("%d policies are kept", len(e.of))
	}
}
