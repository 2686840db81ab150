package client

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// operationsClient is the OperationsClient of a Client.
type operationsClient struct{ c *Client }

func (p *operationsClient) call(ctx context.Context, verb string, request, reply proto.Message) error {
	return p.c.call(ctx, bus.RealmAPI(p.c.realm, p.c.actor, verb), request, reply)
}

func (p *operationsClient) Consumers(ctx context.Context, opts ...ConsumersOption) (*Consumers, error) {
	o := collect(opts, ConsumersOption.ApplyToConsumers)
	q := &coppicev1.ListConsumersRequest{Finalizers: o.Finalizers, Calls: o.Calls}
	for _, a := range o.Agents {
		q.Agents = append(q.Agents, a.String())
	}
	var reply Consumers
	if err := p.call(ctx, bus.VerbListConsumers, q, &reply); err != nil {
		return nil, err
	}
	return &reply, nil
}

func (p *operationsClient) Finalizers(ctx context.Context, opts ...CallOption) ([]*FinalizerInUse, error) {
	o := collect(opts, CallOption.ApplyToCall)
	sums := map[string]*FinalizerInUse{}
	for token := ""; ; {
		var page coppicev1.ListFinalizersReply
		if err := p.call(ctx, bus.VerbListFinalizers, &coppicev1.ListFinalizersRequest{Continue: token}, &page); err != nil {
			return nil, err
		}
		if token == "" {
			o.replied(&page)
		}
		for _, f := range page.GetFinalizers() {
			sum := sums[f.GetName()]
			if sum == nil {
				sums[f.GetName()] = f
				continue
			}
			sum.Objects += f.GetObjects()
			sum.Terminating += f.GetTerminating()
			if f.GetOldest() != 0 && (sum.GetOldest() == 0 || f.GetOldest() < sum.GetOldest()) {
				sum.Oldest = f.GetOldest()
			}
		}
		if token = page.GetContinue(); token == "" {
			break
		}
	}
	list := slices.Collect(maps.Values(sums))
	slices.SortFunc(list, func(a, b *FinalizerInUse) int { return strings.Compare(a.GetName(), b.GetName()) })
	return list, nil
}

func (p *operationsClient) ExpiryPolicies(ctx context.Context, opts ...CallOption) ([]*ExpiryStatus, error) {
	var reply coppicev1.StatusReply
	if err := p.call(ctx, bus.VerbStatus, &coppicev1.StatusRequest{Policies: true}, &reply); err != nil {
		return nil, err
	}
	collect(opts, CallOption.ApplyToCall).replied(&reply)
	return reply.GetPolicies(), nil
}

func (p *operationsClient) Storage(ctx context.Context, opts ...CallOption) (*Storage, error) {
	var reply coppicev1.StatusReply
	if err := p.call(ctx, bus.VerbStatus, &coppicev1.StatusRequest{Storage: true}, &reply); err != nil {
		return nil, err
	}
	collect(opts, CallOption.ApplyToCall).replied(&reply)
	return reply.GetStorage(), nil
}

func (p *operationsClient) Leaders(ctx context.Context, opts ...CallOption) ([]*ControllerLease, error) {
	var reply coppicev1.StatusReply
	if err := p.call(ctx, bus.VerbStatus, &coppicev1.StatusRequest{Leases: true}, &reply); err != nil {
		return nil, err
	}
	collect(opts, CallOption.ApplyToCall).replied(&reply)
	return reply.GetLeases(), nil
}

func (p *operationsClient) ListParked(ctx context.Context, opts ...ParkedOption) (*ParkedPage, error) {
	o := collect(opts, ParkedOption.ApplyToParked)
	var reply ParkedPage
	if err := p.call(ctx, bus.VerbListParked, &coppicev1.ListParkedRequest{
		After: o.After, Limit: uint32(max(o.Limit, 0)), Ids: o.IDs, Content: o.Content, Subject: o.Subject,
	}, &reply); err != nil {
		return nil, err
	}
	return &reply, nil
}

func (p *operationsClient) RetryParked(ctx context.Context, ids []uint64, _ ...ChangeParkedOption) ([]error, error) {
	return p.eachParked(ctx, bus.VerbRetryParked, ids)
}

func (p *operationsClient) DropParked(ctx context.Context, ids []uint64, _ ...ChangeParkedOption) ([]error, error) {
	return p.eachParked(ctx, bus.VerbDropParked, ids)
}

func (p *operationsClient) eachParked(ctx context.Context, verb string, ids []uint64) ([]error, error) {
	var reply coppicev1.ParkedReply
	if err := p.call(ctx, verb, &coppicev1.ParkedRequest{Ids: ids}, &reply); err != nil {
		return nil, err
	}
	if n := len(reply.GetResults()); n != len(ids) {
		return nil, errResults(n, len(ids))
	}
	failed := make([]error, len(ids))
	for i, r := range reply.GetResults() {
		if r.GetError() != nil {
			failed[i] = api.ErrorOf(r.GetError())
		}
	}
	return failed, nil
}

func (p *operationsClient) Resume(ctx context.Context, opts ...CallOption) (resumed bool, err error) {
	var reply coppicev1.ResumeReply
	if err := p.c.command(ctx, bus.RealmAPI(p.c.realm, p.c.actor, bus.VerbResume), &coppicev1.ResumeRequest{}, &reply); err != nil {
		return false, err
	}
	collect(opts, CallOption.ApplyToCall).replied(&reply)
	return reply.GetResumed(), nil
}

func (p *operationsClient) Brakes(ctx context.Context, opts ...CallOption) ([]*BrakeStatus, error) {
	var reply coppicev1.BrakesReply
	if err := p.call(ctx, bus.VerbBrakes, &coppicev1.BrakesRequest{}, &reply); err != nil {
		return nil, err
	}
	collect(opts, CallOption.ApplyToCall).replied(&reply)
	return reply.GetBrakes(), nil
}

func (p *operationsClient) ReleaseBrake(ctx context.Context, kind Resource, opts ...ReleaseBrakeOption) (*BrakeRelease, error) {
	o := collect(opts, ReleaseBrakeOption.ApplyToReleaseBrake)
	c := p.c.patient()
	at := bus.API{Realm: p.c.realm, Actor: p.c.actor, Verb: bus.VerbReleaseBrake, Group: kind.Group, Plural: kind.Plural}
	var reply BrakeRelease
	if err := c.command(ctx, at, &coppicev1.ReleaseBrakeRequest{DryRun: o.DryRun}, &reply); err != nil {
		return nil, err
	}
	return &reply, nil
}

func (p *operationsClient) ListRealms(ctx context.Context, opts ...RealmsOption) ([]*Realm, error) {
	o := collect(opts, RealmsOption.ApplyToRealms)
	var reply coppicev1.ListRealmsReply
	if err := p.c.call(ctx, bus.RealmsAPI("", p.c.actor, bus.VerbListRealms), &coppicev1.ListRealmsRequest{Names: o.Names, Deleted: o.Deleted}, &reply); err != nil {
		return nil, err
	}
	return reply.GetRealms(), nil
}

func (p *operationsClient) CreateRealm(ctx context.Context, name string, _ ...CreateRealmOption) (*Realm, error) {
	if err := bus.CheckRealm(name); err != nil {
		return nil, &Error{Reason: ErrInvalid, Message: err.Error()}
	}
	var reply coppicev1.CreateRealmReply
	if err := p.c.call(ctx, bus.RealmsAPI(name, p.c.actor, bus.VerbCreateRealm), &coppicev1.CreateRealmRequest{Id: rand.Text()}, &reply); err != nil {
		return nil, err
	}
	return reply.GetRealm(), nil
}

func (p *operationsClient) DeleteRealm(ctx context.Context, name string, opts ...DeleteRealmOption) (*Realm, error) {
	if err := bus.CheckRealm(name); err != nil {
		return nil, &Error{Reason: ErrInvalid, Message: err.Error()}
	}
	o := collect(opts, DeleteRealmOption.ApplyToDeleteRealm)
	var reply coppicev1.DeleteRealmReply
	if err := p.c.call(ctx, bus.RealmsAPI(name, p.c.actor, bus.VerbDeleteRealm), &coppicev1.DeleteRealmRequest{Confirm: name, WithoutArchive: o.WithoutArchive}, &reply); err != nil {
		return nil, err
	}
	return reply.GetRealm(), nil
}

func (p *operationsClient) Verify(ctx context.Context, opts ...VerifyOption) (*VerifyResult, error) {
	o := collect(opts, VerifyOption.ApplyToVerify)
	var result *VerifyResult
	// The run that this request shares may have begun before what this client has written:
	// then a second one, which begins later, has the result.
	seen, shared := p.c.Revision(), false
	request := func() proto.Message { return &coppicev1.VerifyRequest{Full: o.Full} }
	err := p.c.streamed(ctx, bus.RealmAPI(p.c.realm, p.c.actor, bus.VerbVerify), request, func(data []byte) (done bool, err error) {
		var b coppicev1.VerifyBatch
		if err := proto.Unmarshal(data, &b); err != nil {
			return false, fmt.Errorf("not a VerifyBatch: %w", err)
		}
		if o.OnProgress != nil {
			o.OnProgress(b.GetSequence(), b.GetLast())
		}
		if b.GetError() != nil {
			return false, api.ErrorOf(b.GetError())
		}
		if r := b.GetResult(); r.GetDifference() == "" && r.GetRevision() < seen && r != nil && !shared {
			shared = true
			return false, errRenewed
		}
		result = b.GetResult()
		return result != nil, nil
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	return result, nil
}

func (p *operationsClient) Archive(ctx context.Context, opts ...ArchiveOption) (*Archived, error) {
	o := collect(opts, ArchiveOption.ApplyToArchive)
	for until := uint64(0); ; {
		var reply Archived
		if err := p.call(ctx, bus.VerbArchive, &coppicev1.ArchiveRequest{Until: until}, &reply); err != nil {
			return nil, fmt.Errorf("archive: %w", err)
		}
		if o.OnProgress != nil {
			o.OnProgress(reply.GetSequence(), reply.GetUntil())
		}
		if reply.GetDone() {
			return &reply, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("archive: %w", err)
		}
		until = reply.GetUntil()
	}
}
