package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/tree"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

func (a *app) describeCommand() *cobra.Command {
	var w where
	c := &cobra.Command{
		Use:     "describe TYPE NAME... | TYPE/NAME...",
		GroupID: "objects",
		Short:   "Show details of an object: owners, dependents, finalizers, last events",
		Long: `Show the details of an object: its metadata; each owner, and whether it keeps the
object; the number of dependents; each finalizer, and whether a program receives its
calls; and the last events of the object.`,
		Example:           "  coppice describe pods web-1 -n shop",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeTargets(&w),
		RunE: a.in(func(ctx context.Context, s *session, args []string) error {
			return s.describe(ctx, args, w)
		}),
	}
	w.flags(c, false)
	w.uninitializedFlag(c)
	a.clientFlags(c)
	a.offlineFlag(c)
	return c
}

func (s *session) describe(ctx context.Context, args []string, w where) error {
	targets, err := s.targets(args)
	if err != nil {
		return err
	}
	c := s.consumers()
	failed := failures{app: s.app}
	n := 0
	for _, t := range targets {
		if len(t.names) == 0 {
			return wrong("no %s are named: write TYPE NAME or TYPE/NAME", client.ResourceOf(t.kind))
		}
		for _, name := range t.names {
			o, node, err := s.lookAt(ctx, t.kind, w, name)
			if err != nil {
				failed.add(err)
				continue
			}
			if n++; n > 1 {
				_, _ = fmt.Fprintln(s.stdout)
			}
			d := description{session: s, kind: t.kind, o: o, node: node, consumers: c}
			if err := d.write(ctx); err != nil {
				return err
			}
		}
	}
	return failed.err("described", n+failed.n)
}

// lookAt reads an object, and how it hangs together with others.
func (s *session) lookAt(ctx context.Context, k client.Kind, w where, name string) (*coppicev1.Object, *coppicev1.GraphNode, error) {
	objects := s.objects(k, w.of(k))
	o, err := objects.Get(ctx, name, client.IncludeUninitialized(w.uninitialized))
	if err != nil {
		return nil, nil, err
	}
	reply, err := objects.Resolve(ctx, []string{name}, client.MinRevision(o.GetMetadata().GetResourceVersion()))
	if err != nil {
		return nil, nil, err
	}
	return o, reply.GetNodes()[0], nil
}

// description writes what is known of an object.
type description struct {
	*session
	kind      client.Kind
	o         *coppicev1.Object
	node      *coppicev1.GraphNode
	consumers *consumers
}

func (d *description) write(ctx context.Context) error {
	m := d.o.GetMetadata()
	d.field("Name", m.GetName())
	if m.GetNamespace() != "" {
		d.field("Namespace", m.GetNamespace())
	}
	d.field("Kind", fmt.Sprintf("%s (%s)", d.o.GetKind(), d.o.GetApiVersion()))
	d.field("UID", m.GetUid())
	d.field("Revision", fmt.Sprint(m.GetResourceVersion()))
	d.field("Generation", fmt.Sprint(m.GetGeneration()))
	d.field("Created", d.since(m.GetCreationTimestamp().AsTime()))
	d.list("Labels", printing.Pairs(m.GetLabels()))
	d.list("Annotations", printing.Pairs(m.GetAnnotations()))
	d.field("Status", d.status(ctx))
	d.initializers()
	d.section("Owners", d.owners())
	dependents := "<none>"
	if n := d.node.GetDependents(); n > 0 {
		dependents = console.Count(int(n), "object")
	}
	if n := d.node.GetBlockingDependents(); n > 0 {
		dependents += fmt.Sprintf(" (%d blocking)", n)
	}
	d.field("Dependents", dependents)
	d.section("Finalizers", d.finalizers(ctx))
	if d.o.GetMetadata().GetDeletionGracePeriodSeconds() > 0 {
		d.field("Agent", d.agent(ctx))
	}
	if warnings := d.warnings(ctx); warnings != nil {
		d.section("Warnings", warnings)
	}
	return d.events(ctx)
}

func (d *description) field(name, value string) {
	_, _ = fmt.Fprintf(d.stdout, "%-13s%s\n", name+":", console.Printable(value))
}

// list writes the values of a field one below the other.
func (d *description) list(name string, values []string) {
	if len(values) == 0 {
		values = []string{"<none>"}
	}
	for i, v := range values {
		if i > 0 {
			_, _ = fmt.Fprintf(d.stdout, "%-13s%s\n", "", console.Printable(v))
			continue
		}
		d.field(name, v)
	}
}

// section writes lines below a heading.
func (d *description) section(name string, rows [][]string) {
	if len(rows) == 0 {
		d.field(name, "<none>")
		return
	}
	_, _ = fmt.Fprintf(d.stdout, "%s:\n", name)
	t := console.Table{W: d.stdout}
	for _, row := range rows {
		row[0] = "  " + row[0]
		_ = t.Text(row...) // as to the other lines, a reader that has gone away matters not
	}
	_ = t.Flush()
}

func (d *description) since(t time.Time) string {
	return fmt.Sprintf("%s (%s ago)", t.Local().Format("2006-01-02 15:04:05"), console.Age(d.now().Sub(t)))
}

func (d *description) status(ctx context.Context) string {
	m := d.o.GetMetadata()
	if m.GetDeletionTimestamp() == nil {
		return printing.StatusOf(d.o)
	}
	return "Terminating since " + d.since(m.GetDeletionTimestamp().AsTime()) + console.Prefixed("; ", d.consumers.blockedBy(ctx, d.node))
}

// initializers prints the pending initializers of an object, and the failure of its
// initialization; nothing if the object is initialized.
func (d *description) initializers() {
	in := d.o.GetMetadata().GetInitializers()
	if names := printing.InitializerNames(in); len(names) > 0 {
		d.list("Waits for", names)
	}
	if r := in.GetResult(); r != nil {
		d.field("Failed", "initialization"+console.Prefixed(": ", r.GetMessage()))
	}
}

// owners has a row for each owner reference.
func (d *description) owners() [][]string {
	var rows [][]string
	for i, r := range d.o.GetMetadata().GetOwnerReferences() {
		var says []string
		if r.GetController() {
			says = append(says, "controller")
		}
		if r.GetBlockOwnerDeletion() {
			says = append(says, "blocking")
		}
		if len(says) == 0 {
			says = append(says, "owner")
		}
		class := "" // the object may have changed since
		if i < len(d.node.GetOwners()) {
			class = d.class(d.node.GetOwners()[i])
		}
		rows = append(rows, []string{d.ownerKey(r), strings.Join(says, ", "), class})
	}
	return rows
}

// class describes the class of an owner reference, with the reason.
func (s *session) class(o *coppicev1.GraphOwner) string { return tree.ClassText(o, s.now()) }

// keptUntil says until when an unknown owner keeps its dependents.
func (s *session) keptUntil(o *coppicev1.GraphOwner) string { return tree.KeptUntilText(o, s.now()) }

// finalizers has a row for each finalizer.
func (d *description) finalizers(ctx context.Context) [][]string {
	var rows [][]string
	for _, f := range d.o.GetMetadata().GetFinalizers() {
		rows = append(rows, []string{f, d.finalizer(ctx, f)})
	}
	return rows
}

func (d *description) finalizer(ctx context.Context, name string) string {
	switch name {
	case lifecycle.FinalizerForeground:
		return "built in: waits until dependents that block the object are gone"
	case lifecycle.FinalizerOrphan:
		return "built in: waits until dependents have lost their references to the object"
	case lifecycle.FinalizerContents:
		return "built in: removes what is in it, " + left(d.node)
	}
	if d.parked(ctx, bus.Finalize{Realm: d.realm, Group: d.kind.Group, Plural: d.kind.Plural, UID: d.o.GetMetadata().GetUid(), Finalizer: name}.Subject()) {
		return saysParked
	}
	return d.consumers.finalizer(ctx, name).says()
}

// says describes the state of the consumer.
func (is consumer) says() string {
	switch is.state {
	case consumerAlive:
		return "answered" + console.Prefixed(" by ", is.process)
	case consumerBusy:
		return "answered" + console.Prefixed(" by ", is.process) + fmt.Sprintf(", which is busy: %s to do", console.Count(int(is.calls), "call"))
	case consumerNone:
		return "no consumer: no program asks for its calls"
	}
	return "unknown: the state of its consumer could not be read"
}

// agent describes the consumer of the kind's agent.
func (d *description) agent(ctx context.Context) string {
	if d.parked(ctx, bus.Terminate{Realm: d.realm, Group: d.kind.Group, Plural: d.kind.Plural, UID: d.o.GetMetadata().GetUid()}.Subject()) {
		return saysParked
	}
	return d.consumers.agent(ctx, client.ResourceOf(d.kind)).says()
}

const saysParked = "the call kept failing and is parked: see 'coppice parked'"

// parked reports whether a call is parked; false if that cannot be read.
func (d *description) parked(ctx context.Context, subject string) bool {
	var reply *coppicev1.ListParkedReply
	ok, err := d.optional(ctx, aboutParked, func(ctx context.Context) (err error) {
		reply, err = d.c.Operations().ListParked(ctx, client.FromSubject(subject), client.Limit(1))
		return err
	})
	if err != nil {
		d.missing(aboutParked, err)
	}
	return ok && len(reply.GetParked()) > 0
}

// warnings has a row for each warning.
func (d *description) warnings(ctx context.Context) [][]string {
	found, err := d.session.warnings(ctx, d.o.GetMetadata().GetUid(), func(client.Warning) bool { return true })
	if err != nil {
		return [][]string{{err.Error()}}
	}
	var rows [][]string
	for _, w := range found {
		rows = append(rows, []string{w.Reason, console.Printable(w.Message), console.Age(d.now().Sub(w.Time)) + " ago"})
	}
	return rows
}

// How far describe looks back for events, and how many it shows.
const (
	describeEvents  = 10
	describeCommits = 5000
)

func (d *description) events(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, d.dial.Timeout)
	defer cancel()
	uid := d.o.GetMetadata().GetUid()
	var h *history.History
	var found []client.LogEvent
	var complete bool
	ok, err := d.optional(ctx, aboutEvents, func(ctx context.Context) (err error) {
		if h, err = d.history(ctx); err != nil {
			return err
		}
		found, complete, err = h.Tail(ctx, describeEvents, describeCommits, client.LogOptions{UIDs: []string{uid}}, func(e *client.LogEvent) bool { return e.UID == uid })
		return err
	})
	if err != nil && ctx.Err() == nil {
		d.field("Events", err.Error())
		return nil
	}
	if !ok {
		return err
	}
	if len(found) == 0 {
		d.field("Events", fmt.Sprintf("none in the last %d commits", describeCommits))
		return nil
	}
	_, _ = fmt.Fprintln(d.stdout, "Events:")
	if !complete {
		_, _ = fmt.Fprintln(d.stdout, "  earlier ones: coppice events", printing.Key(d.kind, d.o.GetMetadata().GetName()))
	}
	w := &eventWriter{w: d.stdout, ink: d.ink(), now: d.now, find: h.Find}
	for _, e := range found {
		if err := w.write(limited, e); err != nil {
			return err
		}
	}
	return nil
}
