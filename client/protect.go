package client

import (
	"context"

	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// ProtectOptions are the options of Protect and Unprotect.
type ProtectOptions struct {
	DryRun bool
	// UID and ResourceVersion are for calls with one object.
	UID             string
	ResourceVersion uint64
	Reply           *Reply
}

// ProtectOption is an option of Protect and Unprotect: DryRun, IfUID, IfResourceVersion or
// ReplyInto.
type ProtectOption interface{ ApplyToProtect(o *ProtectOptions) }

// ApplyToProtect replaces all options by o.
func (o ProtectOptions) ApplyToProtect(to *ProtectOptions) { *to = o }

// ApplyToProtect sets o.DryRun.
func (v DryRun) ApplyToProtect(o *ProtectOptions) { o.DryRun = bool(v) }

// ApplyToProtect sets o.UID.
func (v IfUID) ApplyToProtect(o *ProtectOptions) { o.UID = string(v) }

// ApplyToProtect sets o.ResourceVersion.
func (v IfResourceVersion) ApplyToProtect(o *ProtectOptions) { o.ResourceVersion = uint64(v) }

// ApplyToProtect sets o.Reply.
func (v ReplyOption) ApplyToProtect(o *ProtectOptions) { o.Reply = v.into }

// PlanUnprotect plans the removal of the protection of the objects instead of their deletion:
// the plan has what the collector would do then.
type PlanUnprotect bool

// ApplyToPlan sets o.Unprotect.
func (v PlanUnprotect) ApplyToPlan(o *PlanOptions) { o.Unprotect = bool(v) }

func (r *resourceClient) Protect(ctx context.Context, names []string, reason string, opts ...ProtectOption) ([]Result, error) {
	return r.protect(ctx, bus.VerbProtect, names, reason, opts)
}

func (r *resourceClient) Unprotect(ctx context.Context, names []string, reason string, opts ...ProtectOption) ([]Result, error) {
	return r.protect(ctx, bus.VerbUnprotect, names, reason, opts)
}

func (r *resourceClient) protect(ctx context.Context, verb string, names []string, reason string, opts []ProtectOption) ([]Result, error) {
	o := collect(opts, ProtectOption.ApplyToProtect)
	q := &coppicev1.ProtectRequest{Reason: reason, DryRun: o.DryRun}
	for _, name := range names {
		q.Objects = append(q.Objects, &coppicev1.ProtectTarget{Name: name, Preconditions: preconditions(o.UID, o.ResourceVersion)})
	}
	var reply coppicev1.ObjectsReply
	if err := r.c.command(ctx, r.api(verb), q, &reply); err != nil {
		return nil, err
	}
	if n := len(reply.GetResults()); n != len(names) {
		return nil, errResults(n, len(names))
	}
	list := results(&reply)
	if o.Reply != nil {
		*o.Reply = Reply{Revision: reply.GetRevision()}
		for _, x := range list {
			o.Reply.Warnings = append(o.Reply.Warnings, x.Warnings...)
		}
	}
	return list, nil
}
