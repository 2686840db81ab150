package api

import (
	"context"

	"github.com/coppice-gc/coppice/internal/expirypolicy"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/history"
	"github.com/coppice-gc/coppice/services/graph/propagator"
)

// expiryServer evaluates the expiry policies of a realm. The writer serves it.
type expiryServer struct {
	*servedWriter
	c           ExpiryConfig
	evaluations evaluations
}

// ExpiryConfig is what an expiryServer needs in addition to a server.
type ExpiryConfig struct {
	// Find returns the last commit at a point of the past.
	Find func(context.Context, history.Point) (history.Commit, error)
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

// newExpiryServer returns the expiry policies of a realm.
func newExpiryServer(s *servedWriter, c ExpiryConfig) *expiryServer {
	return &expiryServer{servedWriter: s, c: c, evaluations: evaluations{since: s.now(), of: map[uid.UID]*evaluation{}}}
}
