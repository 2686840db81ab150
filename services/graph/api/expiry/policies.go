package expiry

import (
	"context"

	"github.com/coppice-gc/coppice/internal/expirypolicy"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/expiry/evaluated"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/past"
	"github.com/coppice-gc/coppice/services/graph/propagator"
)

// Resource is the resource of expiry policies.
const Resource = expirypolicy.Plural + "." + lifecycle.Group

// Policies evaluates the expiry policies of a realm. The writer serves it.
type Policies struct {
	*serve.Writer
	c         Config
	evaluated *evaluated.Policies
}

// Config is what Policies need in addition to a serve.Writer.
type Config struct {
	// Find returns the last commit at a point of the past.
	Find func(context.Context, past.Point) (past.Commit, error)
	// Noticed is called with an object and the notice that an expiry policy has given for it: when
	// the notice is given, and at each evaluation in the hour after. It may be nil.
	Noticed func(v lifecycle.View, n *lifecycle.Node, p *expirypolicy.Policy, policy string, given lifecycle.Notice)
	// NoticeCalls collects the calls to a program about notices; nil for no calls.
	NoticeCalls func(ctx context.Context, name string) (*propagator.NoticeCalls, error)
	// RecentCalls has the calls that were published recently; nil if NoticeCalls is nil.
	RecentCalls *propagator.RecentCalls
	// SweepNotices removes the calls about notices that are not needed any more; nil for none.
	SweepNotices func(context.Context) error
}

// New returns the expiry policies of a realm.
func New(s *serve.Writer, c Config) *Policies {
	return &Policies{Writer: s, c: c, evaluated: evaluated.New(s.Now())}
}

// Status returns what is known of the evaluation of a policy.
func (s *Policies) Status(policy *lifecycle.Node) *coppicev1.ExpiryStatus {
	return s.evaluated.Status(policy)
}
