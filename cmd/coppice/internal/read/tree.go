package read

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/tree"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

type treeFlags struct {
	cli.Where
	up   bool
	all  bool
	uses bool
}

// TreeCommand returns the command `coppice tree`.
func TreeCommand(a *cli.App) *cobra.Command {
	var f treeFlags
	c := &cobra.Command{
		Use:     "tree TYPE/NAME",
		GroupID: "objects",
		Short:   "Draw what depends on an object, or what it depends on",
		Long: `Draw an object and its dependents, direct and indirect, each object once; with --up
its owners instead. The drawing shows other owners of an object, which objects are
terminating, and what blocks them.

Dependents of one kind without dependents or anything notable are counted; --all
shows each. --uses also shows what each object uses.`,
		Example: `  coppice tree deploy/web -n shop
  coppice tree pod/web-1 -n shop --up`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: a.CompleteTargets(&f.Where),
		RunE: a.InSession(func(ctx context.Context, s *cli.Session, args []string) error {
			return drawTree(ctx, s, args, f)
		}),
	}
	f.Flags(c, false)
	c.Flags().BoolVar(&f.up, "up", false, "draw the owners")
	c.Flags().BoolVar(&f.all, "all", false, "show each dependent")
	c.Flags().BoolVar(&f.uses, "uses", false, "show what each object uses")
	a.ClientFlags(c)
	a.OfflineFlag(c)
	a.AtFlag(c)
	return c
}

// treeRoot returns the object that a tree begins with, and, for one that goes up, the
// owners above it.
func treeRoot(ctx context.Context, s *cli.Session, objects client.ResourceClient, name string, up bool) (*coppicev1.GraphNode, *tree.Family, error) {
	if up {
		return s.Above(ctx, objects, name, 0)
	}
	reply, err := objects.Resolve(ctx, []string{name})
	if err != nil {
		return nil, nil, err
	}
	return reply.GetNodes()[0], nil, nil
}

// Tree draws an object of a namespace and its dependents, as `coppice tree` does.
func Tree(ctx context.Context, s *cli.Session, object, namespace string) error {
	return drawTree(ctx, s, []string{object}, treeFlags{Where: cli.Where{Namespace: namespace}})
}

func drawTree(ctx context.Context, s *cli.Session, args []string, f treeFlags) error {
	k, name, err := s.OneObject(args)
	if err != nil {
		return err
	}
	root, above, err := treeRoot(ctx, s, s.Objects(k, f.NamespaceOf(k)), name, f.up)
	if err != nil {
		return err
	}
	c := s.Consumers()
	d := &tree.Drawing{
		OwnerKey: s.OwnerKey, Class: func(o *coppicev1.GraphOwner) string { return tree.ClassText(o, s.Clock()) }, All: f.all, Uses: f.uses, Shown: map[string]bool{},
		BlockedBy: func(n *coppicev1.GraphNode) string { return c.BlockedBy(ctx, n) },
	}
	var t *tree.Branch
	if f.up {
		d.Family = above
		c.Read(ctx, d.Family.List()...)
		t = d.Up(root)
	} else {
		if d.Family, err = s.Below(ctx, []string{tree.UIDOf(root)}); err != nil {
			return err
		}
		d.Family.Add(root)
		c.Read(ctx, d.Family.List()...)
		t = d.Down(root, nil)
	}
	if err := t.Write(s.Stdout, s.Ink()); err != nil {
		return err
	}
	if !d.Family.Truncated {
		return nil
	}
	// The graph service counts what no reply has room for.
	total := ""
	if !f.up {
		_, err := s.Optional(ctx, lookup.AboutTotals, func(ctx context.Context) error {
			g, err := s.Anything().ResolveUIDs(ctx, []string{tree.UIDOf(root)}, client.CountTotal(true), client.Limit(1))
			if err == nil {
				total = fmt.Sprintf(" of %d", g.GetTotal())
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(s.Stdout, "these are %d%s objects; the others are not shown\n", len(d.Family.Nodes), total)
	return err
}
