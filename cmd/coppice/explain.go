package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/tree"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

func (a *app) explainCommand() *cobra.Command {
	var w where
	var output string
	c := &cobra.Command{
		Use:     "explain TYPE NAME | TYPE/NAME",
		GroupID: "objects",
		Short:   "Say why an object is not deleted, or why it was",
		Long: `Explain why an object exists: its owners, and theirs. If the object is terminating,
list what blocks it: finalizers and agents, and whether a program receives their
calls; dependents; its controller. If the object is gone, read from the log why it was
removed, back to the command of a client.`,
		Example: `  coppice explain pods/web-1 -n shop
  coppice explain deploy/web -n shop -o json`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: a.completeTargets(&w),
		RunE: a.in(func(ctx context.Context, s *session, args []string) error {
			return s.explain(ctx, args, w, output)
		}),
	}
	w.flags(c, false)
	c.Flags().StringVarP(&output, "output", "o", formatText, "text or json")
	completeFlag(c, "output", textFormats()...)
	a.clientFlags(c)
	a.offlineFlag(c)
	return c
}

// explanation says why an object is not deleted, or why it was. It is also the
// output of -o json.
type explanation struct {
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// State is Active, Terminating or Removed.
	State   string `json:"state"`
	Summary string `json:"summary"`
	// Since is when the object was marked, or removed.
	Since *time.Time `json:"since,omitempty"`
	// Because are the reasons, from the nearest to the command of a client; Causes
	// are the events that they are from.
	Because    []string             `json:"because,omitempty"`
	Causes     []causeJSON          `json:"causes,omitempty"`
	Owners     []explainedOwner     `json:"owners,omitempty"`
	Finalizers []explainedFinalizer `json:"finalizers,omitempty"`
	Agent      *explainedAgent      `json:"agent,omitempty"`
	Dependents *explainedDependents `json:"dependents,omitempty"`
	Generation *awaitedGeneration   `json:"generation,omitempty"`
	// ImportEnds is the latest end of the import session. Until then the built-in
	// finalizers do not act.
	ImportEnds *time.Time         `json:"importEnds,omitempty"`
	Pending    []explainedPending `json:"pending,omitempty"`
	// Skipped are the sequences of messages in the log that are no commits of the
	// realm; graph services skip them. Only the part of the log that was read
	// counts, and at most 100.
	Skipped []uint64 `json:"skipped,omitempty"`
}

const (
	stateActive      = "Active"
	stateTerminating = "Terminating"
	stateRemoved     = "Removed"
)

// causeJSON is an event on the way to an object's deletion.
type causeJSON struct {
	Revision  uint64    `json:"revision"`
	Time      time.Time `json:"time"`
	Type      string    `json:"type"`
	Resource  string    `json:"resource"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	Actor     string    `json:"actor"`
	Verb      string    `json:"verb"`
	Reason    string    `json:"reason"`
}

// explainedOwner is an owner of the object, at depth 0, or of its owners.
type explainedOwner struct {
	Depth        int        `json:"depth"`
	Of           string     `json:"of"`
	Owner        string     `json:"owner"`
	UID          string     `json:"uid"`
	Class        string     `json:"class"`
	Why          string     `json:"why"`
	UnknownUntil *time.Time `json:"unknownUntil,omitempty"`
	Controller   bool       `json:"controller,omitempty"`
	Blocking     bool       `json:"blocking,omitempty"`
	Terminating  bool       `json:"terminating,omitempty"`

	class coppicev1.OwnerClass
}

type explainedFinalizer struct {
	Name    string     `json:"name"`
	BuiltIn bool       `json:"builtIn,omitempty"`
	Since   *time.Time `json:"since,omitempty"` // since when it blocks the object
	answering
}

type explainedAgent struct {
	Until time.Time `json:"until"`
	answering
}

// answering is the state of the consumer of calls.
type answering struct {
	// Consumer is None, Busy or Alive; Unseen if the state could not be read.
	Consumer string `json:"consumer,omitempty"`
	Process  string `json:"process,omitempty"`
	Calls    uint64 `json:"calls,omitempty"`
	Parked   bool   `json:"parked,omitempty"`

	is   consumer
	says string
}

func answers(is consumer, says string) answering {
	return answering{
		Consumer: [...]string{"Unseen", "None", "Busy", "Alive"}[is.state], Process: is.process, Calls: is.calls,
		Parked: says == saysParked, is: is, says: says,
	}
}

type explainedDependents struct {
	All      uint64 `json:"all"`
	Blocking uint64 `json:"blocking"`
	// Unmarked counts dependents that do not block, but have still to be marked for
	// deletion or to lose their reference before the object can be removed.
	Unmarked uint64 `json:"unmarked,omitempty"`
	// Late are dependents that were created after the object was marked, by the
	// actor that created them.
	Late []lateDependents `json:"late,omitempty"`
	// Blockers are the objects that block the deletion, directly or through others.
	Blockers  []blocker `json:"blockers,omitempty"`
	Truncated bool      `json:"truncated,omitempty"`
}

type blocker struct {
	Object    string `json:"object"`
	UID       string `json:"uid"`
	BlockedBy string `json:"blocked,omitempty"`
}

type lateDependents struct {
	Actor string `json:"actor"`
	Count int    `json:"count"`
	// Last is the last one, and when it was created.
	Last string    `json:"last"`
	Time time.Time `json:"time"`
}

type awaitedGeneration struct {
	Awaited  int64 `json:"awaited"`
	Observed int64 `json:"observed"`
}

// explainedPending is pending work of an object or of its owner: since when it is
// pending, and when it is due.
type explainedPending struct {
	Object string     `json:"object"`
	What   string     `json:"what"`
	Since  time.Time  `json:"since"`
	Due    *time.Time `json:"due,omitempty"`
}

func (s *session) explain(ctx context.Context, args []string, w where, output string) error {
	if err := checkFormat(output, textFormats()...); err != nil {
		return err
	}
	k, name, err := s.one(args)
	if err != nil {
		return err
	}
	e := &explainer{session: s, kind: k, namespace: w.of(k)}
	e.explanation = explanation{Resource: client.ResourceOf(k).String(), Namespace: e.namespace, Name: name}
	e.consumers = s.consumers()
	o, node, above, err := e.look(ctx, name)
	switch {
	case errors.Is(err, client.ErrNotFound):
		err = e.removed(ctx, err)
	case err == nil:
		err = e.present(ctx, o, node, above)
	}
	if err != nil {
		return err
	}
	if output == formatJSON {
		enc := json.NewEncoder(s.stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "    ")
		return enc.Encode(e.explanation)
	}
	return e.write()
}

// explainer collects an explanation.
type explainer struct {
	*session
	explanation
	kind      client.Kind
	namespace string
	consumers *consumers

	mark       uint64          // the revision at which the object was marked, 0 if that is not known
	dependents map[string]bool // by uid
}

// look reads an object, its relations, and all owners above it.
func (e *explainer) look(ctx context.Context, name string) (*coppicev1.Object, *coppicev1.GraphNode, *tree.Family, error) {
	objects := e.objects(e.kind, e.namespace)
	o, err := objects.Get(ctx, name, client.IncludeUninitialized(true))
	if err != nil {
		return nil, nil, nil, err
	}
	n, above, err := e.resolveAbove(ctx, objects, name, o.GetMetadata().GetResourceVersion())
	return o, n, above, err
}

// present explains an object that is there.
func (e *explainer) present(ctx context.Context, o *coppicev1.Object, n *coppicev1.GraphNode, above *tree.Family) error {
	m := n.GetObject().GetMetadata()
	e.UID, e.State = m.GetUid(), stateActive
	e.owners(n, above, 0, map[string]bool{})
	e.Dependents = &explainedDependents{All: n.GetDependents(), Blocking: n.GetBlockingDependents(), Unmarked: n.GetPending().GetUnexamined()}
	if m.GetDeletionTimestamp() != nil {
		e.State = stateTerminating
		since := m.GetDeletionTimestamp().AsTime().Add(-time.Duration(m.GetDeletionGracePeriodSeconds()) * time.Second)
		e.Since = &since
		e.marked(ctx)
	}
	d := &description{session: e.session, kind: e.kind, o: o, node: n, consumers: e.consumers}
	e.finalizersAndAgent(ctx, d)
	if n.GetAwaitedGeneration() > n.GetObservedGeneration() {
		e.Generation = &awaitedGeneration{n.GetAwaitedGeneration(), n.GetObservedGeneration()}
	}
	if n.GetImportEnds() != 0 {
		ends := time.UnixMicro(n.GetImportEnds()).UTC()
		e.ImportEnds = &ends
	}
	if e.State == stateTerminating && (n.GetBlockingDependents() > 0 || e.Dependents.Unmarked > 0) {
		ok, err := e.optional(ctx, aboutBlockers, func(ctx context.Context) error { return e.blockers(ctx, n) })
		if err != nil {
			return err
		}
		if ok {
			e.late(ctx)
		}
	}
	e.pendingOf(tree.KeyOfNode(n), n.GetPending())
	for i, r := range m.GetOwnerReferences() {
		e.pendingOf(e.ownerKey(r), n.GetOwners()[i].GetPending())
	}
	e.Summary = e.summary(n)
	return nil
}
