package read

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/internal/jsonpath"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

type getFlags struct {
	cli.Where
	cli.FileFlags
	cli.TableFlags
	selector       string
	sortBy         string
	output         string
	ignoreNotFound bool
	watch          bool
	watchOnly      bool
}

// GetCommand returns the command `coppice get`.
func GetCommand(a *cli.App) *cobra.Command {
	var f getFlags
	c := &cobra.Command{
		Use:     "get TYPE[,TYPE...] [NAME...] | TYPE/NAME... | -f FILE",
		GroupID: "objects",
		Short:   "Show objects",
		Long: `Show objects as kubectl does. The table shows what matters for deletion: whether an
object is terminating, the finalizers that it then has, and its owners. -o wide shows the
finalizers of all objects.

The type 'all' means every kind whose objects are in namespaces. 'get namespaces'
also shows namespaces that have objects and no Namespace object; their status
is Implicit.

-o jsonpath=TEMPLATE and -o custom-columns=HEADER:PATH,... read the templates and
paths of kubectl, and -o jsonpath-file=FILE and -o custom-columns-file=FILE read
them from a file. -o go-template=TEMPLATE and -o go-template-file=FILE read templates
of Go. -o jsonpath-as-json=TEMPLATE writes what each expression selects as a JSON
array.`,
		Example: `  coppice get deployments,pods -n shop
  coppice get pods -A -l app=web -o wide
  coppice get deploy/web -n shop -o yaml
  coppice get all -n shop
  coppice get pods -A --sort-by=.metadata.creationTimestamp
  coppice get pods -n shop -o jsonpath='{.items[*].metadata.name}'
  coppice get pods -o custom-columns=NAME:.metadata.name,UID:.metadata.uid
  coppice get -f web.yaml -o yaml
  coppice get kinds`,
		ValidArgsFunction: a.CompleteTargets(&f.Where),
		RunE: a.InSession(func(ctx context.Context, s *cli.Session, args []string) error {
			return getObjects(ctx, s, args, f)
		}),
	}
	f.Where.Flags(c, true)
	f.FileFlags.Flags(c)
	f.UninitializedFlag(c)
	c.Flags().StringVarP(&f.selector, "selector", "l", "", "label selector: app=web,tier!=db,env in (a,b),!legacy")
	f.FieldFlag(c)
	c.Flags().StringVarP(&f.output, "output", "o", cli.FormatTable, "table, wide, yaml, json, name, jsonpath=TEMPLATE or custom-columns=HEADER:PATH,...")
	c.Flags().StringVar(&f.sortBy, "sort-by", "", "sort by the value of this path, such as .metadata.creationTimestamp")
	c.Flags().BoolVar(&f.ShowLabels, "show-labels", false, "add a column with the labels to tables")
	c.Flags().StringSliceVarP(&f.LabelColumns, "label-columns", "L", nil, "add a column with the value of each of these labels to tables")
	c.Flags().BoolVar(&f.ShowKind, "show-kind", false, "put the type before the names in tables")
	c.Flags().BoolVar(&f.NoHeaders, "no-headers", false, "leave the headers of tables out")
	c.Flags().BoolVar(&f.ignoreNotFound, "ignore-not-found", false, "succeed if an object does not exist")
	c.Flags().BoolVar(&f.Applied, "show-managed-fields", false, "also the members that the last apply has set, in metadata.managedFields")
	c.Flags().BoolVarP(&f.watch, "watch", "w", false, "then print changes, until interrupted")
	c.Flags().BoolVar(&f.watchOnly, "watch-only", false, "print changes only, not the existing objects")
	cli.CompleteFlag(c, "output", cli.ObjectFormats()...)
	a.ClientFlags(c)
	a.OfflineFlag(c)
	a.AtFlag(c)
	return c
}

func getObjects(ctx context.Context, s *cli.Session, args []string, f getFlags) error {
	g, err := prepareGet(ctx, s, args, f)
	if err != nil {
		return err
	}
	if f.watch || f.watchOnly {
		if len(g.targets) > 1 {
			return cli.UsageErrorf("-w watches one type")
		}
		if s.At != "" {
			return cli.UsageErrorf("-w does not go with --at: the past does not change")
		}
		if f.Applied {
			return cli.UsageErrorf("-w does not go with --show-managed-fields")
		}
		if g.sortBy != nil || len(g.fields) > 0 {
			return cli.UsageErrorf("-w does not go with --sort-by and --field-selector")
		}
		return watchTable(ctx, s, g.targets[0], f)
	}
	if g.isKinds() {
		return getKinds(ctx, s, g.targets[0].Names, f)
	}
	p := s.Printer(ctx, f.table(), g.format, len(g.targets) > 1, !g.single)
	if g.sortBy != nil {
		p = &printing.SortedPrinter{Printer: p, By: g.sortBy}
	}
	n := 0
	var errs []error
	f.Implicit = g.showsImplicit()
	for _, t := range g.targets {
		err := s.Each(ctx, t, f.Where, f.selector, func(o *coppicev1.Object) error {
			n++
			return p.Object(t.Kind, o)
		})
		errs = append(errs, cli.IgnoreNotFound(err, f.ignoreNotFound)...)
	}
	if f.Implicit && len(g.targets[0].Names) == 0 {
		errs = append(errs, s.EachImplicit(ctx, func(o *coppicev1.Object) error {
			if !g.fields.Matches(o) {
				return nil
			}
			n++
			return p.Object(g.targets[0].Kind, o)
		}))
	}
	if n > 0 || !g.single {
		errs = append(errs, p.End())
	}
	if n == 0 && g.format.IsTable() && errors.Join(errs...) == nil && !f.ignoreNotFound {
		_, _ = fmt.Fprintln(s.Stderr, g.nothing())
	}
	return errors.Join(errs...)
}

// table returns the flags of the table.
func (f getFlags) table() cli.TableFlags {
	f.Namespaces = f.AllNamespaces
	return f.TableFlags
}

// getting is what get was asked for.
type getting struct {
	getFlags
	targets []cli.Target
	fields  cli.FieldSelector
	sortBy  *jsonpath.Path
	format  cli.OutputFormat
	all     bool // the type was all
	single  bool // one object is named
}

func prepareGet(ctx context.Context, s *cli.Session, args []string, f getFlags) (g getting, err error) {
	g = getting{getFlags: f, all: len(args) == 1 && args[0] == cli.AllKinds}
	if g.format, err = cli.ParseOutput(f.output, cli.ObjectFormats()...); err != nil {
		return g, err
	}
	if g.fields, err = cli.ParseFieldSelector(f.Fields); err != nil {
		return g, err
	}
	if f.sortBy != "" {
		if g.sortBy, err = jsonpath.ParsePath(f.sortBy); err != nil {
			return g, cli.UsageErrorf("--sort-by: %w", err)
		}
	}
	g.targets, err = s.TargetsOrFiles(ctx, args, f.FileFlags, f.Where)
	if err != nil {
		return g, err
	}
	if (f.selector != "" || f.Fields != "") && len(g.targets[0].Names) > 0 {
		return g, cli.UsageErrorf("-l and --field-selector select objects; they do not go with names")
	}
	if err := f.CheckNamed(g.targets); err != nil {
		return g, err
	}
	g.single = len(g.targets) == 1 && len(g.targets[0].Names) == 1
	return g, nil
}

// isKinds reports whether the table of registered kinds is wanted.
func (g getting) isKinds() bool {
	return len(g.targets) == 1 && client.ResourceOf(g.targets[0].Kind) == client.KindsResource && g.format.Name == cli.FormatTable &&
		g.selector == "" && g.fields == nil && g.sortBy == nil && !g.ShowLabels && !g.ShowKind && len(g.LabelColumns) == 0 && len(g.Files) == 0
}

// showsImplicit reports whether namespaces are wanted, also those without a Namespace object.
func (g getting) showsImplicit() bool {
	return len(g.targets) == 1 && client.ResourceOf(g.targets[0].Kind) == cli.NamespacesResource &&
		g.selector == "" && g.format.Name != cli.FormatYAML && g.format.Name != cli.FormatJSON
}

// nothing says that there are no such objects.
func (g getting) nothing() string {
	var resources []string
	where := "found"
	for _, t := range g.targets {
		resources = append(resources, client.ResourceOf(t.Kind).String())
		if g.NamespaceOf(t.Kind) != "" {
			where = "in namespace " + g.Namespace
		}
	}
	if g.all {
		resources = []string{"objects"}
	}
	return "no " + strings.Join(resources, ", ") + " " + where
}

// getKinds lists registered kinds, all or by name.
func getKinds(ctx context.Context, s *cli.Session, names []string, f getFlags) error {
	status := map[string]string{}
	for o, err := range s.Client.Resource(client.KindsResource, "").List(ctx, client.IncludeUninitialized(true)) {
		if err != nil {
			return err
		}
		status[o.GetMetadata().GetName()] = printing.StatusOf(o)
	}
	var found []client.Kind
	missing := slices.Clone(names)
	for _, k := range s.Kinds.All() {
		name := client.ResourceOf(k).String()
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		missing = slices.DeleteFunc(missing, func(n string) bool { return n == name })
		found = append(found, k)
	}
	errs := []error{kindsTable(s, found, f.NoHeaders, func(k client.Kind) string {
		return cmp.Or(status[client.ResourceOf(k).String()], "Active") // the kind of kinds has no object
	})}
	for _, n := range missing {
		if !f.ignoreNotFound {
			errs = append(errs, &client.Error{Reason: client.ErrNotFound, Message: fmt.Sprintf("%s %q not found", client.KindsResource, n)})
		}
	}
	return errors.Join(errs...)
}
