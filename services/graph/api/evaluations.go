package api

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/propagator"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Limits of what is kept of evaluations. Policies that do not exist any more are among those that are
// kept. Each scanner has at most one evaluation of a policy in progress.
const (
	maxEvaluations = 2 * maxExpiryPolicies
	maxInProgress  = 4
)

// examined is what the evaluation of a policy on a page of objects has found.
type examined struct {
	coppicev1.ExpiryStatus
	of     *lifecycle.Node // the policy; nil if it does not exist
	calls  *propagator.NoticeCalls
	cursor []byte // gets the next page; empty after the last
	// failure is ExpiryStatus.failure with the name of the object. Readers of the status may not
	// have permission to see that name.
	failure string
}

// failed counts an object on which the condition has no result.
func (e *examined) failed(at lifecycle.Key, err error) {
	e.Failed++
	e.failure = fmt.Sprintf("%s: %v", at, err)
	if e.Failure = err.Error(); errors.As(err, new(*state.UnreadableError)) {
		e.Failure = "the object cannot be decoded"
	}
}

// reply returns the reply to the scanner.
func (e *examined) reply() *coppicev1.ExamineReply {
	return &coppicev1.ExamineReply{
		Cursor: e.cursor, Examined: uint32(e.Examined), Matched: uint32(e.Matched), Expired: uint32(e.Deleted),
		Failed: uint32(e.Failed), Failure: e.failure, Noticed: uint32(e.Noticed),
	}
}

// evaluations has the last evaluation of each expiry policy. It is safe for concurrent use.
type evaluations struct {
	since time.Time

	mu sync.Mutex
	of map[uid.UID]*evaluation
}

// evaluation is what is known of the evaluation of one policy.
type evaluation struct {
	last    *coppicev1.ExpiryStatus // nil if none has ended
	deleted uint64
	error   string
	failed  time.Time
	// running has the sums of evaluations in progress, by the time of the scanner, which is the
	// same for all pages.
	running map[int64]*coppicev1.ExpiryStatus
}

// add adds a page, or why it could not be evaluated.
func (e *evaluations) add(r *coppicev1.ExamineRequest, page *examined, err *lifecycle.Error, now time.Time) {
	if page.of == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	is := e.of[page.of.UID]
	if is == nil {
		for u := range e.of { // any: that of a policy which exists comes back with its next evaluation
			if len(e.of) < maxEvaluations {
				break
			}
			delete(e.of, u)
		}
		is = &evaluation{running: map[int64]*coppicev1.ExpiryStatus{}}
		e.of[page.of.UID] = is
	}
	is.deleted += page.Deleted
	if err != nil {
		delete(is.running, r.GetNow())
		is.error, is.failed = err.Message, now
		return
	}
	if len(r.GetCursor()) == 0 {
		if len(is.running) >= maxInProgress { // of scanners that have ended meanwhile
			clear(is.running)
		}
		is.running[r.GetNow()] = &coppicev1.ExpiryStatus{}
	}
	sum := is.running[r.GetNow()]
	if sum == nil {
		return // the first pages are not known
	}
	sum.Examined += page.Examined
	sum.Matched += page.Matched
	sum.Due += page.Due
	sum.Noticed += page.Noticed
	sum.Vetoed += page.Vetoed
	sum.Protected += page.Protected
	if sum.Failed += page.Failed; page.Failure != "" {
		sum.Failure = page.Failure
	}
	if len(page.cursor) == 0 {
		delete(is.running, r.GetNow())
		sum.Generation, sum.Evaluated = page.of.Generation, now.UnixMicro()
		is.last, is.error, is.failed = sum, "", time.Time{}
	}
}

// status returns what is known of a policy.
func (e *evaluations) status(policy *lifecycle.Node) *coppicev1.ExpiryStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	status := &coppicev1.ExpiryStatus{}
	if is := e.of[policy.UID]; is != nil {
		if is.last != nil {
			status = proto.Clone(is.last).(*coppicev1.ExpiryStatus)
		}
		if status.Deleted = is.deleted; is.error != "" {
			status.Error, status.ErrorTime = is.error, is.failed.UnixMicro()
		}
	}
	status.Policy, status.Since = policy.Name, e.since.UnixMicro()
	return status
}
