package graph

import (
	"github.com/coppice-gc/coppice/internal/expirypolicy"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// noticed notifies people of the notice that an expiry policy has given for an object.
func (r *realm) noticed(v lifecycle.View, n *lifecycle.Node, p *expirypolicy.Policy, policy string, given lifecycle.Notice) {
	r.warner.Expires(v, n, policy, p.OnSilence == expirypolicy.SilenceKeep, given)
}
