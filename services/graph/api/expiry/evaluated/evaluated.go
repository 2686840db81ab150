// Package evaluated remembers what was found when the expiry policies of a realm were evaluated. A [Page] is what one
// request of a scanner has found; [Policies] sums up the pages, and has the last evaluation of each policy.
package evaluated

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// MaxPolicies is the maximum number of expiry policies in a realm, and in a request. The
// scanner has each evaluated on all objects of its kind, once a minute, and the writer parses each
// that it stores.
const MaxPolicies = 100

// Limits of what is remembered of evaluations. Policies that do not exist any more are among those that are
// remembered. Each scanner has at most one evaluation of a policy in progress.
const (
	maxRemembered = 2 * MaxPolicies
	maxInProgress = 4
)

// Page is what the evaluation of a policy on a page of objects has found.
type Page struct {
	coppicev1.ExpiryStatus
	Of     *lifecycle.Node // the policy; nil if it does not exist
	Cursor []byte          // gets the next page; empty after the last
	// failure is ExpiryStatus.failure with the name of the object. Readers of the status may not
	// have permission to see that name.
	failure string
}

// Fail counts an object on which the condition has no result.
func (p *Page) Fail(at lifecycle.Key, err error) {
	p.Failed++
	p.failure = fmt.Sprintf("%s: %v", at, err)
	if p.Failure = err.Error(); errors.As(err, new(*state.UnreadableError)) { // it names the object
		p.Failure = "the object cannot be decoded"
	}
}

// Reply returns the reply to the scanner.
func (p *Page) Reply() *coppicev1.ExamineReply {
	return &coppicev1.ExamineReply{
		Cursor: p.Cursor, Examined: uint32(p.Examined), Matched: uint32(p.Matched), Expired: uint32(p.Deleted),
		Failed: uint32(p.Failed), Failure: p.failure, Noticed: uint32(p.Noticed),
	}
}

// Policies has the last evaluation of each expiry policy. It is safe for concurrent use.
type Policies struct {
	since time.Time

	mu sync.Mutex
	of map[uid.UID]*evaluation
}

// New returns Policies of which none has been evaluated. since is the time from which on evaluations are known.
func New(since time.Time) *Policies { return &Policies{since: since, of: map[uid.UID]*evaluation{}} }

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

// Add adds a page, or why it could not be evaluated.
func (p *Policies) Add(r *coppicev1.ExamineRequest, page *Page, err *lifecycle.Error, now time.Time) {
	if page.Of == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	is := p.of[page.Of.UID]
	if is == nil {
		for u := range p.of { // any: that of a policy which exists comes back with its next evaluation
			if len(p.of) < maxRemembered {
				break
			}
			delete(p.of, u)
		}
		is = &evaluation{running: map[int64]*coppicev1.ExpiryStatus{}}
		p.of[page.Of.UID] = is
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
	if len(page.Cursor) == 0 {
		delete(is.running, r.GetNow())
		sum.Generation, sum.Evaluated = page.Of.Generation, now.UnixMicro()
		is.last, is.error, is.failed = sum, "", time.Time{}
	}
}

// Status returns what is known of a policy.
func (p *Policies) Status(policy *lifecycle.Node) *coppicev1.ExpiryStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	status := &coppicev1.ExpiryStatus{}
	if is := p.of[policy.UID]; is != nil {
		if is.last != nil {
			status = proto.Clone(is.last).(*coppicev1.ExpiryStatus)
		}
		if status.Deleted = is.deleted; is.error != "" {
			status.Error, status.ErrorTime = is.error, is.failed.UnixMicro()
		}
	}
	status.Policy, status.Since = policy.Name, p.since.UnixMicro()
	return status
}
