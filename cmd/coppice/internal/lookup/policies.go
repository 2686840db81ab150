package lookup

import (
	"context"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/expirypolicy"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// ExpiryPolicy is an expiry policy that selects an object.
type ExpiryPolicy struct {
	Name string
	// Says is what the policy does with the object, and when.
	Says string
}

// PoliciesOf returns the expiry policies that are about the kind of an object and its labels (B6.5).
// They are optional information.
func (r *Reader) PoliciesOf(ctx context.Context, k client.Kind, o *coppicev1.Object) (list []ExpiryPolicy, err error) {
	policies := r.client.Resource(client.Resource{Group: api.Group, Plural: expirypolicy.Plural}, "")
	_, err = r.Optional(ctx, AboutPolicies, func(ctx context.Context) error {
		for policy, err := range policies.List(ctx) {
			if err != nil {
				return err
			}
			p, err := expirypolicy.Parse(policy.GetSpec())
			if err != nil || policy.GetMetadata().GetDeletionTimestamp() != nil || p.Group != k.Group || p.Kind != k.Kind || !p.Selects(o) {
				continue // one of a later version, or of other objects
			}
			list = append(list, ExpiryPolicy{Name: policy.GetMetadata().GetName(), Says: terminal.Printable(expirySays(p, o, r.Now()))})
		}
		return nil
	})
	return list, err
}

// expirySays says what a policy does with an object that it selects.
func expirySays(p *expirypolicy.Policy, o *coppicev1.Object, now time.Time) string {
	is, err := p.Matches(o, now)
	old := p.OldEnough(o)
	var when []string
	if old.After(now) {
		when = append(when, "from "+terminal.Clock(old, now)+" on")
	}
	switch {
	case err != nil:
		when = append(when, "if its condition has a result ("+err.Error()+")")
	case p.Condition != "" && (old.After(now) || !is):
		when = append(when, "if its condition is true then")
	}
	if p.MinUnchanged > 0 {
		when = append(when, "once it has not changed for "+p.MinUnchanged.String())
	}
	if len(when) == 0 {
		when = []string{"at its next evaluation"}
	}
	verb := "deletes it "
	switch {
	case p.ReportOnly:
		verb = "only reports it "
	case p.OnSilence == expirypolicy.SilenceKeep:
		verb = "deletes it, if someone agrees, "
	}
	says := verb + strings.Join(when, ", ")
	if p.Notice > 0 && !p.ReportOnly {
		says += "; it gives notice " + p.Notice.String() + " before"
	}
	return says
}
