package read

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// UsesCommand returns the command `coppice uses`.
func UsesCommand(a *cli.App) *cobra.Command {
	return relationCommand(a, &cobra.Command{
		Use:   "uses TYPE NAME | TYPE/NAME",
		Short: "List the objects that an object uses",
		Long: `List the objects that an object uses, and the state of each use:

  resolved     the object exists, and is removed only after its user
  unresolved   no object of that name exists yet; the use has no effect
  absent       no object with this uid exists
  mismatched   the object with this uid has another kind, name or namespace`,
		Example: `  coppice uses pods/web-1 -n shop`,
	}, writeUses)
}

// UsedByCommand returns the command `coppice used-by`.
func UsedByCommand(a *cli.App) *cobra.Command {
	return relationCommand(a, &cobra.Command{
		Use:     "used-by TYPE NAME | TYPE/NAME",
		Short:   "List the objects that use an object",
		Long:    `List the objects that use an object. While there are any, the object is not removed.`,
		Example: `  coppice used-by configmaps/settings -n shop -o json`,
	}, writeUsers)
}

func relationCommand(a *cli.App, c *cobra.Command, write func(*cli.Session, *coppicev1.GraphNode, string) error) *cobra.Command {
	var w cli.Where
	var output string
	c.GroupID, c.Args, c.ValidArgsFunction = "objects", cobra.RangeArgs(1, 2), a.CompleteTargets(&w)
	c.RunE = a.InSession(func(ctx context.Context, s *cli.Session, args []string) error {
		if err := cli.CheckFormat(output, cli.TextFormats()...); err != nil {
			return err
		}
		k, name, err := s.OneObject(args)
		if err != nil {
			return err
		}
		objects := s.Objects(k, w.NamespaceOf(k))
		reply, err := objects.Resolve(ctx, []string{name})
		if err != nil {
			return err
		}
		if len(reply.GetNodes()) == 0 {
			_, err := objects.Get(ctx, name, client.IncludeUninitialized(true))
			return err
		}
		n := reply.GetNodes()[0]
		if err := s.AllUsers(ctx, n); err != nil {
			return err
		}
		return write(s, n, output)
	})
	w.Flags(c, false)
	c.Flags().StringVarP(&output, "output", "o", cli.FormatText, "text or json")
	cli.CompleteFlag(c, "output", cli.TextFormats()...)
	a.ClientFlags(c)
	a.OfflineFlag(c)
	return c
}

// writeUses writes the uses of an object.
func writeUses(s *cli.Session, n *coppicev1.GraphNode, output string) error {
	rows := lookup.UseRows(n)
	if output == cli.FormatJSON {
		type use struct {
			Object    string `json:"object"`
			Namespace string `json:"namespace,omitempty"`
			UID       string `json:"uid,omitempty"`
			State     string `json:"state"`
		}
		list := []use{}
		for i, u := range n.GetObject().GetMetadata().GetUses() {
			list = append(list, use{lookup.UsedName(u), u.GetNamespace(), u.GetUid(), rows[i][1]})
		}
		return s.WriteJSON(list)
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(s.Stdout, "it uses nothing")
		return err
	}
	return writePairs(s, rows)
}

// writeUsers writes the users of an object.
func writeUsers(s *cli.Session, n *coppicev1.GraphNode, output string) error {
	type user struct {
		Object      string `json:"object"`
		Namespace   string `json:"namespace,omitempty"`
		UID         string `json:"uid"`
		Terminating bool   `json:"terminating,omitempty"`
	}
	list, rows := []user{}, [][]string{}
	for _, u := range n.GetUsedBy() {
		list = append(list, user{u.GetResource() + "/" + u.GetName(), u.GetNamespace(), u.GetUid(), u.GetTerminating()})
		state := "active"
		if u.GetTerminating() {
			state = "being deleted"
		}
		rows = append(rows, []string{u.GetResource() + "/" + u.GetName() + terminal.Prefixed(" in ", u.GetNamespace()), state})
	}
	switch more := int(n.GetUsers()) - len(list); {
	case output == cli.FormatJSON:
		return s.WriteJSON(list)
	case n.GetUsers() == 0:
		_, err := fmt.Fprintln(s.Stdout, "no object uses it")
		return err
	case more > 0:
		rows = append(rows, []string{fmt.Sprintf("and %d more", more), ""})
	}
	return writePairs(s, rows)
}

// writePairs writes rows of two columns.
func writePairs(s *cli.Session, rows [][]string) error {
	width := 0
	for _, r := range rows {
		width = max(width, len(r[0]))
	}
	for _, r := range rows {
		if _, err := fmt.Fprintf(s.Stdout, "%-*s  %s\n", width, terminal.Printable(r[0]), r[1]); err != nil {
			return err
		}
	}
	return nil
}
