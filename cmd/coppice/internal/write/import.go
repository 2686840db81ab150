package write

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/manifestfile"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// ImportCommand returns the command `coppice import`.
func ImportCommand(a *cli.App) *cobra.Command {
	var f writeFlags
	c := &cobra.Command{
		Use:     "import -f FILE",
		GroupID: "start",
		Short:   "Import objects from another system with their uids",
		Long: `Import objects as 'kubectl get -o yaml' prints them, and keep their uids,
timestamps, finalizers and deletion state. Objects may come in any order, and
importing them again does no harm: kinds, policies and realm settings are imported
first, and nothing that is imported is collected before the end of the import. An object
that exists with another uid is refused. -n is for objects that name no namespace: with
an export of several namespaces it is refused, and nothing is imported.

An owner that was not imported counts as unknown until ten minutes after the import (the
realm setting ownerGrace): until then it can still be imported, and its dependents are
kept. After that they are deleted, unless they have another owner. A warning names owner
references whose uid is that of another object, also in a dry run. If only the group
differs, as in apiVersion extensions/v1beta1 of a Deployment that is in apps/v1 now, the
owner counts as unknown while it exists: write the apiVersion that the warning names, and
import the object again.`,
		Example: `  kubectl get deploy,rs,po,cm,svc -A -o yaml | coppice import -f -
  coppice import -f examples/shop`,
		RunE: a.InSession(func(ctx context.Context, s *cli.Session, args []string) error {
			return importAll(ctx, s, args, f)
		}),
	}
	f.flags(c)
	c.Flags().Lookup("dry-run").Usage = "server: evaluate the request and change nothing; or none"
	a.ClientFlags(c)
	return c
}

const partlyImported = "; some objects are imported, and missing owners count as unknown for some time: import again"

func importAll(ctx context.Context, s *cli.Session, args []string, f writeFlags) error {
	mode, err := cli.ParseDryRun(f.dryRun)
	if err != nil {
		return err
	}
	if mode == cli.DryClient {
		return cli.UsageErrorf("--dry-run=client is not supported by import, because only the server can check the references; use --dry-run=server")
	}
	dry := mode.On()
	entries, err := s.Entries(ctx, f.FileFlags, args)
	if err != nil {
		return err
	}
	im := &importer{
		Session: s, failed: cli.Failures{App: s.App}, id: uuid.NewString(), dry: dry,
		open: map[string]*batch{}, added: map[string]cli.Item{}, names: map[uid.UID]string{}, taken: map[string]uid.UID{}, maxBytes: int(s.Conn.MaxPayload()) / batchOfMaxBytes,
	}
	err = im.run(ctx, entries, f.namespace)
	switch {
	case err == nil:
	case dry || len(im.uids) == 0:
		return err
	case ctx.Err() != nil:
		return errors.New("interrupted" + partlyImported)
	default:
		return fmt.Errorf("%w%s", err, partlyImported)
	}
	slices.Sort(im.uids)
	im.uids = slices.Compact(im.uids)
	switch {
	case len(im.uids) == 0:
	case dry:
		_, err = fmt.Fprintf(s.Stdout, "%s%s\n", terminal.Count(len(im.uids), "object"), mode.Suffix())
	default:
		if err = im.summary(ctx); errors.Is(err, client.ErrForbidden) {
			s.Missing(lookup.AboutClasses, err)
			_, err = fmt.Fprintf(s.Stdout, "%s\n", terminal.Count(len(im.uids), "object"))
		}
	}
	return errors.Join(err, im.failed.Err("imported", len(entries)))
}

// importer imports objects in batches, all in one session.
type importer struct {
	*cli.Session
	failed   cli.Failures
	id       string
	dry      bool
	maxBytes int
	open     map[string]*batch   // by resource and namespace
	order    []*batch            // as they were opened
	added    map[string]cli.Item // by uid, the first with each
	uids     []string            // of imported objects
	revision uint64              // at which the session has ended
	tried    []tried             // what was imported in a dry run
	names    map[uid.UID]string  // of the objects that a dry run would have created
	taken    map[string]uid.UID  // by these names
}

// tried is an object that was imported in a dry run, and the warnings of the server.
type tried struct {
	cli.Item
	warnings []string
}

// batch has objects of one resource in one namespace.
type batch struct {
	items []cli.Item
	bytes int
}

func (im *importer) run(ctx context.Context, entries []manifestfile.Entry, namespace string) error {
	// Kinds are imported first, because the files may have objects of them.
	for _, e := range entries {
		if cli.Registers(e) {
			if err := im.add(ctx, e, namespace); err != nil {
				return err
			}
		}
	}
	if len(im.order) > 0 {
		if err := im.flush(ctx); err != nil {
			return err
		}
		for _, kind := range im.tried {
			im.LearnKind(kind.Entry)
		}
		if err := im.ReadKinds(ctx); err != nil {
			return err
		}
	}
	// Policies and realm settings decide about the objects that are imported after them.
	for _, first := range []bool{true, false} {
		for _, e := range entries {
			if !cli.Registers(e) && governs(e) == first {
				if err := im.add(ctx, e, namespace); err != nil {
					return err
				}
			}
		}
		if err := im.flush(ctx); err != nil {
			return err
		}
	}
	if im.dry {
		im.checkReferences()
		return nil
	}
	var reply client.Reply
	_, err := im.Anything().ImportBatch(ctx, im.id, nil, client.CloseSession(true), client.ReplyInto(&reply))
	im.revision = reply.Revision
	return err
}

// add puts an object into its batch, which is sent when it is full.
func (im *importer) add(ctx context.Context, e manifestfile.Entry, namespace string) error {
	i, err := im.Place(e, namespace)
	if err != nil {
		im.failed.Add(err)
		return nil
	}
	u := i.Object.GetMetadata().GetUid()
	switch first, known := im.added[u]; {
	case !known && u != "":
		im.added[u] = i
	case known && first.Key() == i.Key() && first.Namespace == i.Namespace && !proto.Equal(first.Object, i.Object):
		im.failed.Add(fmt.Errorf("%s: %s: a different manifest of the same object is at %s: keep one of them", i.At, i.Key(), first.At))
		return nil
	}
	where := client.ResourceOf(i.Kind).String() + "/" + i.Namespace
	size := proto.Size(i.Object)
	b := im.open[where]
	if b != nil && (len(b.items) == batchObjects || b.bytes+size > im.maxBytes) {
		if err := im.send(ctx, b); err != nil {
			return err
		}
		b.items, b.bytes = b.items[:0], 0
	}
	if b == nil {
		b = &batch{}
		im.open[where] = b
		im.order = append(im.order, b)
	}
	b.items = append(b.items, i)
	b.bytes += size
	return nil
}

// flush sends all batches.
func (im *importer) flush(ctx context.Context) error {
	for _, b := range im.order {
		if err := im.send(ctx, b); err != nil {
			return err
		}
	}
	im.open, im.order = map[string]*batch{}, nil
	return nil
}

// send imports a batch. It reports objects that are refused, and imports the others.
func (im *importer) send(ctx context.Context, b *batch) error {
	if len(b.items) == 0 {
		return nil
	}
	objects := make([]*coppicev1.Object, len(b.items))
	for i := range b.items {
		objects[i] = b.items[i].Object
	}
	first := b.items[0]
	results, err := make([]client.Result, len(objects)), error(nil)
	if !first.Unregistered {
		results, err = im.Objects(first.Kind, first.Namespace).ImportBatch(ctx, im.id, objects, client.DryRun(im.dry))
	}
	var refused *client.Error
	if len(b.items) == 1 && errors.As(err, &refused) && refused.Reason != client.ErrServiceUnavailable && refused.Reason != client.ErrTimeout {
		results, err = []client.Result{{Err: refused}}, nil
	}
	if err != nil {
		return first.Failed(err)
	}
	for i, r := range results {
		if im.dry && r.Err == nil {
			r.Err = im.clash(b.items[i], r.Created)
		}
		if r.Err != nil {
			im.failed.Add(b.items[i].Failed(r.Err))
			continue
		}
		im.Warn(b.items[i].At, r.Warnings)
		if im.dry {
			im.tried = append(im.tried, tried{b.items[i], r.Warnings})
		}
		im.uids = append(im.uids, b.items[i].Object.GetMetadata().GetUid())
	}
	return nil
}

// clash returns the refusal of an object that has the uid or the name of another object of a dry run. The server
// stores none of them, and refuses those of one request. created reports whether it would create the object.
func (im *importer) clash(i cli.Item, created bool) error {
	u, err := uid.Parse(i.Object.GetMetadata().GetUid())
	if err != nil {
		return nil //nolint:nilerr // the kind is unregistered, and the server has evaluated nothing
	}
	name := fmt.Sprintf("%s %q", client.ResourceOf(i.Kind), i.Object.GetMetadata().GetName())
	if i.Namespace != "" {
		name += fmt.Sprintf(" in namespace %q", i.Namespace)
	}
	refused := &client.Error{Resource: client.ResourceOf(i.Kind).String()}
	switch has, known := im.names[u]; {
	case known && has != name:
		refused.Reason = client.ErrConflict
		refused.Message = fmt.Sprintf("operation cannot be fulfilled on %s: uid %s belongs to %s", name, u, has)
		return refused
	case im.taken[name] != "" && im.taken[name] != u:
		refused.Reason = client.ErrAlreadyExists
		refused.Message = fmt.Sprintf("%s already exists; it has uid %s, and the manifest has uid %s: delete it first", name, im.taken[name], u)
		return refused
	case created || i.Unregistered:
		im.names[u], im.taken[name] = name, u
	}
	return nil
}

// checkReferences warns of owner references whose uid is that of another object of the files. The server has none of these
// in a dry run; it warns of those that exist in the realm.
func (im *importer) checkReferences() {
	nodes := make([]*lifecycle.Node, len(im.tried))
	among := map[uid.UID]*lifecycle.Node{}
	for i := range im.tried {
		if nodes[i] = nodeOf(im.tried[i].Object); nodes[i] != nil {
			among[nodes[i].UID] = nodes[i]
		}
	}
	for i, t := range im.tried {
		if nodes[i] == nil {
			continue
		}
		for _, w := range lifecycle.MistakenAmong(nodes[i], among) {
			if !slices.ContainsFunc(t.warnings, func(of string) bool { return strings.HasPrefix(of, w) }) {
				im.Warn(t.At, []string{w})
			}
		}
	}
}

// nodeOf returns what checkReferences needs of an object, nil if its uid is malformed.
func nodeOf(o *coppicev1.Object) *lifecycle.Node {
	meta := o.GetMetadata()
	u, err := uid.Parse(meta.GetUid())
	if err != nil {
		return nil
	}
	n := &lifecycle.Node{
		UID: u, APIVersion: o.GetApiVersion(), Kind: o.GetKind(), Namespace: meta.GetNamespace(), Name: meta.GetName(),
		DeletionTime: lifecycle.Time(meta.GetDeletionTimestamp().GetSeconds()),
	}
	for _, r := range meta.GetOwnerReferences() {
		if of, err := uid.Parse(r.GetUid()); err == nil {
			n.Owners = append(n.Owners, lifecycle.OwnerReference{APIVersion: r.GetApiVersion(), Kind: r.GetKind(), Name: r.GetName(), UID: of})
		}
	}
	return n
}

// governs reports whether an object is a policy or the realm settings.
func governs(e manifestfile.Entry) bool {
	return e.Object != nil && strings.HasPrefix(e.Object.GetApiVersion(), client.KindsResource.Group+"/")
}

// summary prints the classes of the imported objects' references. The collector may have deleted
// objects since the session ended.
func (im *importer) summary(ctx context.Context) error {
	sum := references{deleted: len(im.uids)}
	if err := im.UIDs(ctx, im.uids, sum.add, client.MinRevision(im.revision)); err != nil {
		return err
	}
	if sum.lost > 0 {
		_, _ = fmt.Fprintf(im.Stderr, "%s no owner keeps %s, which the collector deletes\n", im.Ink().Yellow("warning:"), terminal.Count(sum.lost, "object"))
	}
	_, err := fmt.Fprintf(im.Stdout, "%s: %s\n", terminal.Count(len(im.uids), "object"), sum)
	return err
}

// references counts owner references by class.
type references struct {
	solid, waiting, dangling, unknown, roots int
	lost                                     int       // objects that no owner keeps
	deleted                                  int       // objects that were not added
	until                                    time.Time // the earliest at which an unknown owner counts as absent
}

func (r *references) add(n *coppicev1.GraphNode) {
	r.deleted--
	if len(n.GetOwners()) == 0 {
		r.roots++
	} else if !slices.ContainsFunc(n.GetOwners(), func(o *coppicev1.GraphOwner) bool {
		return o.GetClass() != coppicev1.OwnerClass_OWNER_CLASS_DANGLING && o.GetClass() != coppicev1.OwnerClass_OWNER_CLASS_WAITING
	}) {
		r.lost++
	}
	for _, o := range n.GetOwners() {
		switch o.GetClass() {
		case coppicev1.OwnerClass_OWNER_CLASS_SOLID:
			r.solid++
		case coppicev1.OwnerClass_OWNER_CLASS_WAITING:
			r.waiting++
		case coppicev1.OwnerClass_OWNER_CLASS_DANGLING:
			r.dangling++
		default:
			r.unknown++
			if until := time.UnixMicro(o.GetUnknownUntil()); o.GetUnknownUntil() != 0 && (r.until.IsZero() || until.Before(r.until)) {
				r.until = until
			}
		}
	}
}

func (r references) String() string {
	var parts []string
	add := func(n int, noun, what string) {
		if n > 0 {
			parts = append(parts, terminal.Count(n, noun)+what)
		}
	}
	add(r.solid, "reference", " solid")
	add(r.waiting, "reference", " waiting")
	add(r.dangling, "reference", " dangling")
	kept := " unknown (kept)"
	if !r.until.IsZero() {
		kept = " unknown (kept until " + r.until.Local().Format("15:04") + ")"
	}
	add(r.unknown, "owner", kept)
	add(r.roots, "root", "")
	add(r.deleted, "object", " deleted since")
	return strings.Join(parts, ", ")
}
