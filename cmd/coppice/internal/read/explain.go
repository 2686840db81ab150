package read

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/explain"
)

// ExplainCommand returns the command `coppice explain`.
func ExplainCommand(a *cli.App) *cobra.Command {
	var w cli.Where
	var output string
	c := &cobra.Command{
		Use:     "explain TYPE NAME | TYPE/NAME",
		GroupID: "objects",
		Short:   "Say why an object is not deleted, or why it was",
		Long: `Explain why an object exists: its owners, and their owners. If the object is terminating,
list what blocks it: finalizers and agents, and whether a program receives their
calls; dependents; its controller. If the object is gone, read from the log why it was
removed, back to the command of a client.`,
		Example: `  coppice explain pods/web-1 -n shop
  coppice explain deploy/web -n shop -o json`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: a.CompleteTargets(&w),
		RunE: a.InSession(func(ctx context.Context, s *cli.Session, args []string) error {
			return explainObject(ctx, s, args, w, output)
		}),
	}
	w.Flags(c, false)
	c.Flags().StringVarP(&output, "output", "o", cli.FormatText, "text or json")
	cli.CompleteFlag(c, "output", cli.TextFormats()...)
	a.ClientFlags(c)
	a.OfflineFlag(c)
	a.AtFlag(c)
	return c
}

func explainObject(ctx context.Context, s *cli.Session, args []string, w cli.Where, output string) error {
	if err := cli.CheckFormat(output, cli.TextFormats()...); err != nil {
		return err
	}
	k, name, err := s.OneObject(args)
	if err != nil {
		return err
	}
	e, err := explain.Explain(ctx, s.Reader, k, w.NamespaceOf(k), name)
	if err != nil {
		return err
	}
	if output == cli.FormatJSON {
		return s.WriteJSON(e)
	}
	return e.Write(s.Stdout, s.Clock())
}
