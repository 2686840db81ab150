package plan

import (
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/planname"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Hash returns a hash of what a plan does: which objects are removed, stay and lose references,
// and their blockers that are not objects of the plan; which objects the request names, with which
// options; and by which policy and with which grace period objects are marked, whatever decides
// that. It does not depend on the revision at which the plan was computed, or when unknown owners
// count as absent. Objects that the plan does not name count too: a deletion does no more to them
// than was planned.
func (p *Plan) Hash() string {
	sorted := slices.Concat(p.Objects, p.elsewhere)
	slices.SortFunc(sorted, func(a, b *Object) int { return strings.Compare(string(a.Node.UID), string(b.Node.UID)) })
	h := sha256.New()
	for _, o := range sorted {
		outcome := o.Outcome
		if outcome == RemovedLater {
			outcome = Removed
		}
		var said []string
		for _, r := range o.Lost {
			said = append(said, fmt.Sprintf("lost %s %s %s %s", r.UID, r.Group(), r.Kind, r.Name))
		}
		for _, by := range o.Blockers {
			if !by.inPlan() {
				said = append(said, fmt.Sprintf("blocker %d %s %s", by.Type, by.Name, by.Owner))
			}
		}
		if o.Requested {
			said = append(said, "requested "+o.asked)
		}
		if m := o.mark; m.Policy != "" {
			said = append(said, fmt.Sprintf("marked %s %d", m.Policy, m.Grace))
		}
		slices.Sort(said)
		_, _ = io.WriteString(h, fmt.Sprintf("%s %d %q\n", o.Node.UID, outcome, slices.Compact(said))) // writing to a hash never fails
	}
	return planname.Hash([sha256.Size]byte(h.Sum(nil)))
}

// inPlan reports whether the blocker is other objects of the plan.
func (h Blocker) inPlan() bool {
	switch h.Type {
	case coppicev1.PlanBlocker_TYPE_USERS, coppicev1.PlanBlocker_TYPE_DEPENDENTS, coppicev1.PlanBlocker_TYPE_PROTECTED,
		coppicev1.PlanBlocker_TYPE_CONTENTS, coppicev1.PlanBlocker_TYPE_PODS, coppicev1.PlanBlocker_TYPE_UNEXAMINED:
		return true
	}
	return false
}

// Name returns the name of the plan, by which a DELETE identifies it. With the revision in it a
// refusal can say what has changed since.
func (p *Plan) Name() planname.Name {
	return planname.Name{Options: p.options, Hash: p.Hash(), Revision: p.Revision}
}

// Counts counts the objects that the plan names, by outcome.
func (p *Plan) Counts() *coppicev1.PlanCounts {
	c := &coppicev1.PlanCounts{}
	for _, o := range p.Objects {
		switch o.Outcome {
		case Removed:
			c.Removed++
		case RemovedLater:
			c.RemovedLater++
		case Blocked:
			c.Blocked++
		case Orphaned:
			c.Orphaned++
		case Stripped:
			c.Stripped++
		case Kept:
			c.Kept++
		case Protected:
			c.Protected++
		}
	}
	return c
}

// Reply returns the plan as clients receive it, from the object at offset on. It has at
// most limit objects, unless limit is zero, and approximately at most maxBytes bytes.
func (p *Plan) Reply(offset, limit, maxBytes int) *coppicev1.PlanReply {
	name := p.Name()
	reply := &coppicev1.PlanReply{Revision: p.Revision, Hash: name.Hash, Plan: name.String(), Counts: p.Counts(), Cycles: p.Cycles, Brakes: p.Brakes, Elsewhere: uint32(len(p.elsewhere))}
	size := 0
	for _, o := range p.Objects[min(offset, len(p.Objects)):] {
		m := o.message()
		size += proto.Size(m)
		if n := len(reply.Objects); n > 0 && (n == limit || size > maxBytes) {
			reply.Truncated = true
			break
		}
		reply.Objects = append(reply.Objects, m)
	}
	return reply
}

func (o *Object) message() *coppicev1.PlannedObject {
	m := &coppicev1.PlannedObject{
		Resource: o.Resource, Namespace: o.Node.Namespace, Name: o.Node.Name, Uid: o.Node.UID.String(),
		Outcome: o.Outcome, Requested: o.Requested, Terminating: o.Node.Terminating(), DependsOnOrder: o.DependsOnOrder, ForegroundForUsers: o.ForUsers,
		ExpiresAt: int64(o.ExpiresAt), NoticePolicy: o.NoticePolicy, NoticeEnds: int64(o.Notice.Due()),
	}
	if o.Because != "" {
		m.Because = o.Because.String()
	}
	if len(o.Lost) > 0 {
		m.References = lifecycle.Object{Node: &lifecycle.Node{Owners: o.Lost}}.API().GetMetadata().GetOwnerReferences()
	}
	for _, h := range o.Blockers {
		m.Blockers = append(m.Blockers, &coppicev1.PlanBlocker{Type: h.Type, Name: h.Name, Until: h.Until.Known(), Count: uint32(h.Count)})
	}
	return m
}
