package main

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/explain"
)

func (a *app) explainCommand() *cobra.Command {
	var w where
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
	a.atFlag(c)
	return c
}

func (s *session) explain(ctx context.Context, args []string, w where, output string) error {
	if err := checkFormat(output, textFormats()...); err != nil {
		return err
	}
	k, name, err := s.one(args)
	if err != nil {
		return err
	}
	e, err := explain.Explain(ctx, s.Reader, k, w.of(k), name)
	if err != nil {
		return err
	}
	if output == formatJSON {
		enc := json.NewEncoder(s.stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "    ")
		return enc.Encode(e)
	}
	return e.Write(s.stdout, s.now())
}
