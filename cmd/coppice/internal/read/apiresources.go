package read

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
)

type apiResourcesFlags struct {
	group      string
	namespaced bool
	output     string
	noHeaders  bool
}

// APIResourcesCommand returns the command `coppice api-resources`.
func APIResourcesCommand(a *cli.App) *cobra.Command {
	var f apiResourcesFlags
	c := &cobra.Command{
		Use:     "api-resources",
		GroupID: "operate",
		Short:   "List the kinds that are registered in a realm",
		Long: `Api-resources lists the kinds of a realm: the words that name them on the command
line, their versions, and whether their objects are in namespaces. docs/kinds.md
says how to register one.`,
		Example: `  coppice api-resources
  coppice api-resources --api-group=apps -o name
  coppice api-resources --namespaced=false`,
		Args: cobra.NoArgs,
	}
	c.RunE = a.InSession(func(_ context.Context, s *cli.Session, _ []string) error {
		if err := cli.CheckFormat(f.output, cli.FormatTable, cli.FormatName); err != nil {
			return err
		}
		group, scope := c.Flags().Changed("api-group"), c.Flags().Changed("namespaced")
		kinds := slices.DeleteFunc(s.Kinds.All(), func(k client.Kind) bool {
			return group && k.Group != f.group || scope && k.Namespaced() != f.namespaced
		})
		if f.output == cli.FormatTable {
			return kindsTable(s, kinds, f.noHeaders, nil)
		}
		for _, k := range kinds {
			if _, err := fmt.Fprintln(s.Stdout, terminal.Printable(client.ResourceOf(k).String())); err != nil {
				return err
			}
		}
		return nil
	})
	c.Flags().StringVar(&f.group, "api-group", "", "only kinds of this group; empty for the core group")
	c.Flags().BoolVar(&f.namespaced, "namespaced", true, "only kinds whose objects are in namespaces; =false: only cluster-scoped kinds")
	c.Flags().StringVarP(&f.output, "output", "o", cli.FormatTable, "table or name")
	c.Flags().BoolVar(&f.noHeaders, "no-headers", false, "leave the headers of the table out")
	cli.CompleteFlag(c, "output", cli.FormatTable, cli.FormatName)
	a.ClientFlags(c)
	a.OfflineFlag(c)
	return c
}

// kindsTable lists kinds, with the words that name them, and with their status if it is given.
func kindsTable(s *cli.Session, kinds []client.Kind, noHeaders bool, status func(client.Kind) string) error {
	t := terminal.Table{W: s.Stdout}
	if !noHeaders {
		headers := []string{"NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"}
		if status != nil {
			headers = append(headers, "STATUS")
		}
		if err := t.Text(headers...); err != nil {
			return err
		}
	}
	for _, k := range kinds {
		var versions []string
		for _, v := range k.Versions {
			if k.Group == "" {
				versions = append(versions, v.Name)
			} else {
				versions = append(versions, k.Group+"/"+v.Name)
			}
		}
		row := []string{
			client.ResourceOf(k).String(), strings.Join(k.ShortNames, ","), strings.Join(versions, ","),
			strconv.FormatBool(k.Namespaced()), k.Kind,
		}
		if status != nil {
			row = append(row, status(k))
		}
		if err := t.Text(row...); err != nil {
			return err
		}
	}
	return t.Flush()
}
