package write

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/manifestfile"
	"github.com/coppice-gc/coppice/internal/rpc"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// operation is what a command does with the objects of manifests.
type operation struct {
	done string // "applied"
	send func(client.ResourceClient, context.Context, []*client.Object, ...client.WriteOption) ([]client.Result, error)
	// check returns why the command does not take an object; it may be nil.
	check func(manifestfile.Entry) error
	// options are those of the command's flags.
	options []client.WriteOption
	// outcome is the word for what happened to an object. before is the realm's
	// revision before the request.
	outcome func(r client.Result, before uint64) string
	// rehearse is outcome for a dry run.
	rehearse func(context.Context, *cli.Session, cli.Item, cli.DryMode, operation) (string, *client.Object, error)
	// listed: -o prints several objects as a List.
	listed bool
}

// Manifests are written in windows: the objects of a window are sent in batches of one
// kind and namespace, and their outcomes are printed in the order of the files.
const (
	windowObjects = 1000
	batchObjects  = 500
	// batchOfMaxBytes is the maximum size of a message divided by that of a batch: the
	// commit of a batch has room for the commands of other clients.
	batchOfMaxBytes = 8
)

// fileWriter writes the objects of manifests.
type fileWriter struct {
	*cli.Session
	operation
	failed    cli.Failures
	namespace string
	mode      cli.DryMode
	results   printing.Printer // of -o, nil for a line of text for each object
	maxBytes  int
	total     int
	written   int
}

// outcome is what happened to the object of an entry.
type outcome struct {
	cli.Item
	text string
	is   *client.Object // after the request
	err  error
}

func writeFiles(ctx context.Context, s *cli.Session, args []string, f writeFlags, o operation) error {
	mode, err := cli.ParseDryRun(f.dryRun)
	if err != nil {
		return err
	}
	entries, err := s.Entries(ctx, f.FileFlags, args)
	if err != nil {
		return err
	}
	w := &fileWriter{
		Session: s, operation: o, failed: cli.Failures{App: s.App}, namespace: f.namespace, mode: mode,
		maxBytes: int(s.Conn.MaxPayload()) / batchOfMaxBytes, total: len(entries),
	}
	if w.results, err = s.ResultPrinter(ctx, f.output, o.listed && len(entries) > 1); err != nil {
		return err
	}
	progress := newProgress(s.App, o.done, len(entries))
	defer progress.end()
	for len(entries) > 0 {
		n := w.window(entries)
		progress.clear()
		if err := w.write(ctx, entries[:n]); err != nil {
			return err
		}
		w.written += n
		progress.show(w.written)
		entries = entries[n:]
	}
	if w.results != nil {
		if err := w.results.End(); err != nil {
			return err
		}
	}
	return w.failed.Err(o.done, w.total)
}

// window returns how many entries are written together. The registration of a kind is
// written alone, because objects of the kind may follow; and of entries for the same
// object each is written after the other.
func (w *fileWriter) window(entries []manifestfile.Entry) int {
	type identity struct{ apiVersion, kind, namespace, name string }
	seen := map[identity]bool{}
	for n, e := range entries[:min(len(entries), windowObjects)] {
		if cli.Registers(e) {
			return max(n, 1)
		}
		m := e.Object.GetMetadata()
		id := identity{e.Object.GetApiVersion(), e.Object.GetKind(), m.GetNamespace(), m.GetName()}
		if m.GetName() != "" && seen[id] {
			return n
		}
		seen[id] = true
	}
	return min(len(entries), windowObjects)
}

// write writes a window, and prints its outcomes. The error is one that ends the
// command.
func (w *fileWriter) write(ctx context.Context, entries []manifestfile.Entry) error {
	outcomes := make([]outcome, len(entries))
	for at, e := range entries {
		o := &outcomes[at]
		if o.Item, o.err = w.Place(e, w.namespace); o.err == nil {
			o.Objects = w.Objects(o.Kind, o.Namespace)
			if w.check != nil {
				if err := w.check(e); err != nil {
					o.err = fmt.Errorf("%s: %s: %w", o.At, o.Key(), err)
				}
			}
		}
	}
	var failed error
	if w.mode.On() {
		failed = w.rehearsals(ctx, outcomes)
	} else {
		failed = w.requests(ctx, outcomes)
	}
	for at := range outcomes {
		o := &outcomes[at]
		switch {
		case o.err != nil:
			w.failed.Add(o.err)
		case o.is != nil && w.results != nil:
			if err := cli.PrintResult(w.results, o.Kind, o.is); err != nil {
				return err
			}
		case o.text != "":
			if _, err := fmt.Fprintf(w.Stdout, "%s %s%s\n", terminal.Printable(o.Key()), o.text, w.mode.Suffix()); err != nil {
				return err
			}
		}
	}
	if failed != nil {
		return failed
	}
	switch {
	case !cli.Registers(entries[0]):
	case !w.mode.On():
		return w.ReadKinds(ctx)
	case outcomes[0].err == nil:
		w.LearnKind(entries[0])
	}
	return nil
}

// rehearsals does a dry run of each object.
func (w *fileWriter) rehearsals(ctx context.Context, outcomes []outcome) error {
	for at := range outcomes {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if o := &outcomes[at]; o.err == nil {
			if o.text, o.is, o.err = w.rehearse(ctx, w.Session, o.Item, w.mode, w.operation); o.err != nil {
				o.err = o.Failed(o.err)
			}
		}
	}
	return nil
}

// requests sends the objects, in batches of one kind and namespace.
func (w *fileWriter) requests(ctx context.Context, outcomes []outcome) error {
	var order []string
	groups := map[string][]*outcome{}
	for at := range outcomes {
		o := &outcomes[at]
		if o.err != nil {
			continue
		}
		where := client.ResourceOf(o.Kind).String() + "/" + o.Namespace
		if groups[where] == nil {
			order = append(order, where)
		}
		groups[where] = append(groups[where], o)
	}
	if len(order) == 0 {
		return nil
	}
	before, err := realmRevision(ctx, w.Session)
	if err != nil {
		return err
	}
	for _, where := range order {
		for group := groups[where]; len(group) > 0; {
			n := w.batch(group)
			if err := w.request(ctx, group[:n], before); err != nil {
				return err
			}
			group = group[n:]
		}
	}
	return nil
}

// realmRevision returns the revision of the realm.
func realmRevision(ctx context.Context, s *cli.Session) (uint64, error) {
	page, err := s.Anything().ListPage(ctx, client.Limit(1))
	if err != nil {
		return 0, err
	}
	return page.Revision, nil
}

// batch returns how many objects of a group go in one request: one if -o prints the objects, which
// the reply to a batch does not have.
func (w *fileWriter) batch(group []*outcome) int {
	if w.results != nil {
		return 1
	}
	size := 0
	for n, o := range group[:min(len(group), batchObjects)] {
		if size += proto.Size(o.Object); n > 0 && size > w.maxBytes {
			return n
		}
	}
	return min(len(group), batchObjects)
}

// request sends a batch. A batch that is too large is halved; any other refusal of
// the request is the outcome of each object. An error that says nothing about the
// objects ends the command.
func (w *fileWriter) request(ctx context.Context, group []*outcome, before uint64) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	list := make([]*coppicev1.Object, len(group))
	for at, o := range group {
		list[at] = o.Object
	}
	results, err := w.send(group[0].Objects, ctx, list, w.options...)
	var refused *client.Error
	switch {
	case err == nil:
	case !errors.As(err, &refused), rpc.Retryable(err), errors.Is(err, client.ErrOutcomeUnknown):
		return fmt.Errorf("%w; not all objects are %s: run the command again", group[0].Failed(err), w.done)
	case errors.Is(err, client.ErrRequestEntityTooLarge) && len(group) > 1:
		half := len(group) / 2
		if err := w.request(ctx, group[:half], before); err != nil {
			return err
		}
		return w.request(ctx, group[half:], before)
	default:
		results = slices.Repeat([]client.Result{{Err: refused}}, len(group))
	}
	for at, r := range results {
		o := group[at]
		if r.Err != nil {
			o.err = o.Failed(r.Err)
			continue
		}
		gone := accepted(w.App, o.At, r.Object, r.Warnings)
		if o.Object.GetMetadata().GetName() == "" {
			o.Object.Metadata.Name = r.Object.GetMetadata().GetName()
		}
		o.is = r.Object
		if o.text = w.outcome(r, before); gone {
			o.text = deleted
		}
	}
	return nil
}

// sendAlone sends the object alone.
func sendAlone(ctx context.Context, i cli.Item, o operation, opts ...client.WriteOption) (client.Result, error) {
	results, err := o.send(i.Objects, ctx, []*coppicev1.Object{i.Object}, append(opts, o.options...)...)
	if err != nil {
		return client.Result{}, err
	}
	return results[0], results[0].Err
}
