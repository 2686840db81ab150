package client

import (
	"context"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// VetoOptions are the options of Veto and Agree.
type VetoOptions struct {
	// UID and ResourceVersion are preconditions, if set.
	UID             string
	ResourceVersion uint64
	Reply           *Reply
}

// VetoOption is an option of Veto and Agree: IfUID, IfResourceVersion or ReplyInto.
type VetoOption interface{ ApplyToVeto(o *VetoOptions) }

// ApplyToVeto replaces all options by o.
func (o VetoOptions) ApplyToVeto(to *VetoOptions) { *to = o }

// ApplyToVeto sets o.UID.
func (v IfUID) ApplyToVeto(o *VetoOptions) { o.UID = string(v) }

// ApplyToVeto sets o.ResourceVersion.
func (v IfResourceVersion) ApplyToVeto(o *VetoOptions) { o.ResourceVersion = uint64(v) }

// ApplyToVeto sets o.Reply.
func (v ReplyOption) ApplyToVeto(o *VetoOptions) { o.Reply = v.into }

func (r *resourceClient) Veto(ctx context.Context, name string, until time.Time, reason string, opts ...VetoOption) error {
	return r.veto(ctx, &coppicev1.VetoRequest{Name: name, Until: until.UnixMicro(), Reason: reason}, opts)
}

func (r *resourceClient) Agree(ctx context.Context, name, reason string, opts ...VetoOption) error {
	return r.veto(ctx, &coppicev1.VetoRequest{Name: name, Agree: true, Reason: reason}, opts)
}

func (r *resourceClient) veto(ctx context.Context, q *coppicev1.VetoRequest, opts []VetoOption) error {
	o := collect(opts, VetoOption.ApplyToVeto)
	q.Preconditions = preconditions(o.UID, o.ResourceVersion)
	var reply coppicev1.VetoReply
	err := r.c.command(ctx, r.api(bus.VerbVeto), q, &reply)
	if err == nil && o.Reply != nil {
		*o.Reply = Reply{Revision: reply.GetRevision()}
	}
	return err
}
