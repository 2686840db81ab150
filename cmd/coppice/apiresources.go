package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
)

type apiResourcesFlags struct {
	group      string
	namespaced bool
	output     string
	noHeaders  bool
}

func (a *app) apiResourcesCommand() *cobra.Command {
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
	c.RunE = a.in(func(_ context.Context, s *session, _ []string) error {
		if err := checkFormat(f.output, formatTable, formatName); err != nil {
			return err
		}
		group, scope := c.Flags().Changed("api-group"), c.Flags().Changed("namespaced")
		kinds := slices.DeleteFunc(s.Kinds.All(), func(k client.Kind) bool {
			return group && k.Group != f.group || scope && k.Namespaced() != f.namespaced
		})
		if f.output == formatTable {
			return s.kindsTable(kinds, f.noHeaders, nil)
		}
		for _, k := range kinds {
			if _, err := fmt.Fprintln(s.stdout, console.Printable(client.ResourceOf(k).String())); err != nil {
				return err
			}
		}
		return nil
	})
	c.Flags().StringVar(&f.group, "api-group", "", "only kinds of this group; empty for the core group")
	c.Flags().BoolVar(&f.namespaced, "namespaced", true, "only kinds whose objects are in namespaces; =false: only cluster-scoped kinds")
	c.Flags().StringVarP(&f.output, "output", "o", formatTable, "table or name")
	c.Flags().BoolVar(&f.noHeaders, "no-headers", false, "leave the headers of the table out")
	completeFlag(c, "output", formatTable, formatName)
	a.clientFlags(c)
	a.offlineFlag(c)
	return c
}

// kindsTable lists kinds, with the words that name them, and with their status if it is given.
func (s *session) kindsTable(kinds []client.Kind, noHeaders bool, status func(client.Kind) string) error {
	t := console.Table{W: s.stdout}
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
