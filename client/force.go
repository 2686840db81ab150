package client

import (
	"context"

	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// ForceOptions are the options of ForceFinalizer.
type ForceOptions struct {
	UID             string
	ResourceVersion uint64
	Call            uint64
	Reply           *Reply
}

// ForceOption is an option of ForceFinalizer: IfUID, IfResourceVersion, IfCall or ReplyInto.
type ForceOption interface{ ApplyToForce(o *ForceOptions) }

// ApplyToForce replaces all options by o.
func (o ForceOptions) ApplyToForce(to *ForceOptions) { *to = o }

// ApplyToForce sets o.UID.
func (v IfUID) ApplyToForce(o *ForceOptions) { o.UID = string(v) }

// ApplyToForce sets o.ResourceVersion.
func (v IfResourceVersion) ApplyToForce(o *ForceOptions) { o.ResourceVersion = uint64(v) }

// ApplyToForce sets o.Reply.
func (v ReplyOption) ApplyToForce(o *ForceOptions) { o.Reply = v.into }

// IfCall removes a finalizer even while a program works on this call. The ErrConflict of an
// attempt without IfCall names the call.
type IfCall uint64

// ApplyToForce sets o.Call.
func (v IfCall) ApplyToForce(o *ForceOptions) { o.Call = uint64(v) }

func (r *resourceClient) ForceFinalizer(ctx context.Context, name, finalizer, reason string, opts ...ForceOption) (*Object, error) {
	o := collect(opts, ForceOption.ApplyToForce)
	at := r.api(bus.VerbForceFinalizer)
	at.Finalizer = finalizer
	var reply coppicev1.ObjectsReply
	err := r.c.command(ctx, at, &coppicev1.ForceFinalizerRequest{
		Name: name, Preconditions: preconditions(o.UID, o.ResourceVersion), Reason: reason, Call: o.Call,
	}, &reply)
	return object(&reply, o.Reply, err)
}
