package describe

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/tree"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Describer describes objects of a realm.
type Describer struct {
	Reader    *lookup.Reader
	Consumers *lookup.Consumers
	W         io.Writer
	Ink       terminal.Ink
	// EventTime is the maximum time for the events of an object; 0 leaves them out.
	EventTime time.Duration
}

// Describe writes the details of an object of kind k. n has the classes of its owners and
// the counts of its dependents. It fails only if its events cannot be written: information
// that cannot be read is optional, or its field has the error.
func (d *Describer) Describe(ctx context.Context, k client.Kind, o *coppicev1.Object, n *coppicev1.GraphNode) error {
	x := &description{Describer: d, Fields: terminal.Fields{W: d.W}, kind: k, o: o, node: n}
	return x.write(ctx)
}

// description is the description of one object.
type description struct {
	*Describer
	terminal.Fields
	kind client.Kind
	o    *coppicev1.Object
	node *coppicev1.GraphNode
}

func (d *description) write(ctx context.Context) error {
	m := d.o.GetMetadata()
	d.Consumers.Read(ctx, d.node)
	d.Field("Name", m.GetName())
	if m.GetNamespace() != "" {
		d.Field("Namespace", m.GetNamespace())
	}
	d.Field("Kind", fmt.Sprintf("%s (%s)", d.o.GetKind(), d.o.GetApiVersion()))
	d.Field("UID", m.GetUid())
	d.Field("Revision", fmt.Sprint(m.GetResourceVersion()))
	d.Field("Generation", fmt.Sprint(m.GetGeneration()))
	d.Field("Created", d.since(m.GetCreationTimestamp().AsTime()))
	d.List("Labels", printing.Pairs(m.GetLabels()))
	d.List("Annotations", printing.Pairs(m.GetAnnotations()))
	d.Field("Status", d.status(ctx))
	if rows := d.conditions(); len(rows) > 0 {
		d.Section("Conditions", rows)
	}
	d.protection()
	if at := m.GetExpiresAt(); at != nil {
		d.Field("Expires", at.AsTime().Local().Format("2006-01-02 15:04:05")+terminal.Prefixed("; ", printing.Expiry(m, d.Reader.Now())))
	}
	if list := lookup.Notices(d.node, d.Reader.Now()); len(list) > 0 {
		d.List("Notices", list)
	}
	d.initializers()
	d.Section("Owners", d.owners())
	dependents := "<none>"
	if n := d.node.GetDependents(); n > 0 {
		dependents = terminal.Count(int(n), "object")
	}
	if n := d.node.GetBlockingDependents(); n > 0 {
		dependents += fmt.Sprintf(" (%d blocking)", n)
	}
	d.Field("Dependents", dependents)
	if rows := lookup.UseRows(d.node); len(rows) > 0 {
		d.Section("Uses", rows)
	}
	if d.node.GetUsers() > 0 {
		d.Field("Used by", lookup.Users(d.node))
	}
	d.Section("Finalizers", d.finalizers(ctx))
	if rows := lookup.RemainingRows(d.node, d.Consumers.Remaining(ctx, d.node)); len(rows) > 0 {
		d.Section("Contents", rows)
	}
	if m.GetDeletionGracePeriodSeconds() > 0 {
		d.Field("Agent", d.Consumers.Call(d.node, "").Text())
	}
	if warnings := d.warnings(ctx); warnings != nil {
		d.Section("Warnings", warnings)
	}
	if d.EventTime == 0 {
		return nil
	}
	return d.events(ctx)
}

func (d *description) since(t time.Time) string {
	return fmt.Sprintf("%s (%s ago)", t.Local().Format("2006-01-02 15:04:05"), terminal.Age(d.Reader.Now().Sub(t)))
}

func (d *description) status(ctx context.Context) string {
	m := d.o.GetMetadata()
	if m.GetDeletionTimestamp() == nil {
		return printing.StatusOf(d.o)
	}
	return "Terminating since " + d.since(d.began(ctx)) + terminal.Prefixed("; ", d.Consumers.BlockedBy(ctx, d.node))
}

// began returns when the deletion began: the time of its event, if the log can be read and has it.
func (d *description) began(ctx context.Context) time.Time {
	m := d.o.GetMetadata()
	began := printing.DeletionBegan(m)
	_, _ = d.Reader.Optional(ctx, lookup.AboutEvents, func(ctx context.Context) error { // events reports an error
		h, err := d.Reader.History(ctx)
		if err != nil {
			return err
		}
		mark, err := h.Marked(ctx, m)
		if mark != nil {
			began = mark.Time
		}
		return err
	})
	return began
}

// conditions has a row for each condition that is derived from what is known now.
func (d *description) conditions() (rows [][]string) {
	for _, c := range d.node.GetConditions() {
		since := ""
		if c.GetSince() != 0 {
			since = "since " + terminal.Clock(time.UnixMicro(c.GetSince()), d.Reader.Now())
		}
		rows = append(rows, []string{c.GetType(), c.GetStatus(), c.GetReason(), since})
	}
	return rows
}

// protection writes who protects an object, and which protected objects its deletion waits
// for; nothing if there are none.
func (d *description) protection() {
	if p := d.o.GetMetadata().GetProtection(); p != nil {
		text := cmp.Or(d.node.GetProtectedBy(), printing.ProtectedBy(p))
		if p.GetTime() != nil {
			text += ", since " + d.since(p.GetTime().AsTime())
		}
		d.Field("Protection", text)
	}
	if below := d.node.GetProtected(); len(below) > 0 {
		d.List("Protected", below)
	}
}

// initializers writes the pending initializers of an object, and the failure of its
// initialization; nothing if the object is initialized.
func (d *description) initializers() {
	in := d.o.GetMetadata().GetInitializers()
	if names := printing.InitializerNames(in); len(names) > 0 {
		d.List("Waits for", names)
	}
	if r := in.GetResult(); r != nil {
		d.Field("Failed", "initialization"+terminal.Prefixed(": ", r.GetMessage()))
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
			class = tree.ClassText(d.node.GetOwners()[i], d.Reader.Now())
		}
		rows = append(rows, []string{d.Reader.OwnerKey(r), strings.Join(says, ", "), class})
	}
	return rows
}

// finalizers has a row for each of the first finalizers.
func (d *description) finalizers(ctx context.Context) [][]string {
	m := d.o.GetMetadata()
	var rows [][]string
	for i, f := range m.GetFinalizers() {
		if i == terminal.Listed {
			return append(rows, []string{fmt.Sprintf("and %d more", len(m.GetFinalizers())-i)})
		}
		text := lookup.BuiltInText(d.node, f)
		switch {
		case text != "":
		case m.GetDeletionTimestamp() == nil:
			text = d.Consumers.Finalizer(ctx, f).Text()
		default:
			text = d.Consumers.Call(d.node, f).Text()
		}
		rows = append(rows, []string{f, text})
	}
	return rows
}

// warnings has a row for each warning.
func (d *description) warnings(ctx context.Context) [][]string {
	found, err := d.Reader.Warnings(ctx, d.o.GetMetadata().GetUid(), func(client.Warning) bool { return true })
	if err != nil {
		return [][]string{{err.Error()}}
	}
	var rows [][]string
	for _, w := range found {
		rows = append(rows, []string{w.Reason, terminal.Printable(w.Message), terminal.Age(d.Reader.Now().Sub(w.Time)) + " ago"})
	}
	return rows
}

// maxEvents is the maximum number of events that are written.
const maxEvents = 10

// events writes the last events of the object.
func (d *description) events(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, d.EventTime)
	defer cancel()
	uid := d.o.GetMetadata().GetUid()
	var h *history.History
	var found []client.LogEvent
	var complete bool
	ok, err := d.Reader.Optional(ctx, lookup.AboutEvents, func(ctx context.Context) (err error) {
		if h, err = d.Reader.History(ctx); err != nil {
			return err
		}
		found, complete, err = h.Tail(ctx, maxEvents, history.RecentCommits, client.LogOptions{UIDs: []string{uid}}, func(e *client.LogEvent) bool { return e.UID == uid })
		return err
	})
	if err != nil && ctx.Err() == nil {
		d.Field("Events", err.Error())
		return nil
	}
	if !ok {
		return err
	}
	if len(found) == 0 {
		none := fmt.Sprintf("none in the last %d commits", history.RecentCommits)
		if h.Pruned != nil {
			none = fmt.Sprintf("none that can be read: %v", h.Pruned)
		}
		d.Field("Events", none)
		return nil
	}
	_, _ = fmt.Fprintln(d.Describer.W, "Events:")
	if h.Pruned != nil {
		_, _ = fmt.Fprintln(d.Describer.W, "  earlier ones cannot be read:", h.Pruned)
	} else if !complete {
		_, _ = fmt.Fprintln(d.Describer.W, "  earlier ones: coppice events", printing.Key(d.kind, d.o.GetMetadata().GetName()))
	}
	w := &history.Writer{W: d.Describer.W, Ink: d.Ink, Now: d.Reader.Now, Find: h.Find}
	for _, e := range found {
		if err := w.Event(limited, e); err != nil {
			return err
		}
	}
	return nil
}
