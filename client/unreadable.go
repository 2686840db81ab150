package client

import (
	"context"

	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// DeleteUnreadableOptions are the options of DeleteUnreadable.
type DeleteUnreadableOptions struct {
	DryRun          bool
	UID             string
	ResourceVersion uint64
	Reply           *Reply
}

// DeleteUnreadableOption is an option of DeleteUnreadable: DryRun, IfUID, IfResourceVersion or
// ReplyInto.
type DeleteUnreadableOption interface {
	ApplyToDeleteUnreadable(o *DeleteUnreadableOptions)
}

// ApplyToDeleteUnreadable replaces all options by o.
func (o DeleteUnreadableOptions) ApplyToDeleteUnreadable(to *DeleteUnreadableOptions) { *to = o }

// ApplyToDeleteUnreadable sets o.DryRun.
func (v DryRun) ApplyToDeleteUnreadable(o *DeleteUnreadableOptions) { o.DryRun = bool(v) }

// ApplyToDeleteUnreadable sets o.UID.
func (v IfUID) ApplyToDeleteUnreadable(o *DeleteUnreadableOptions) { o.UID = string(v) }

// ApplyToDeleteUnreadable sets o.ResourceVersion.
func (v IfResourceVersion) ApplyToDeleteUnreadable(o *DeleteUnreadableOptions) {
	o.ResourceVersion = uint64(v)
}

// ApplyToDeleteUnreadable sets o.Reply.
func (v ReplyOption) ApplyToDeleteUnreadable(o *DeleteUnreadableOptions) { o.Reply = v.into }

func (r *resourceClient) DeleteUnreadable(ctx context.Context, name, reason string, opts ...DeleteUnreadableOption) (*Object, error) {
	o := collect(opts, DeleteUnreadableOption.ApplyToDeleteUnreadable)
	var reply coppicev1.ObjectsReply
	err := r.c.command(ctx, r.api(bus.VerbDeleteUnreadable), &coppicev1.DeleteUnreadableRequest{
		Name: name, Preconditions: preconditions(o.UID, o.ResourceVersion), Reason: reason, DryRun: o.DryRun,
	}, &reply)
	return object(&reply, o.Reply, err)
}
