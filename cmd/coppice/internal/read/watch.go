package read

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/changes"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/manifest"
)

type watchFlags struct {
	cli.Where
	selector string
	output   string
	only     bool
	timeout  time.Duration
}

// WatchCommand returns the command `coppice watch`.
func WatchCommand(a *cli.App) *cobra.Command {
	var f watchFlags
	c := &cobra.Command{
		Use:     "watch TYPE [NAME...]",
		GroupID: "objects",
		Short:   "Follow changes of objects",
		Long: `Print the existing objects and then each change, one line each, until interrupted or
until --timeout has passed. After a lost connection or a change of servers the watch
resumes without a gap.

-o json prints one JSON object for each change, with time, type (ADDED, MODIFIED,
DELETED), reason, changes and the object.`,
		Example: `  coppice watch pods -n shop
  coppice watch pods -A -l app=web -o json`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.CompleteTargets(&f.Where),
		RunE: a.InSession(func(ctx context.Context, s *cli.Session, args []string) error {
			return watchObjects(ctx, s, args, f)
		}),
	}
	f.Flags(c, true)
	f.UninitializedFlag(c)
	c.Flags().StringVarP(&f.selector, "selector", "l", "", "label selector")
	c.Flags().StringVarP(&f.output, "output", "o", cli.FormatText, "text or json")
	c.Flags().BoolVar(&f.only, "watch-only", false, "print changes only, not the existing objects")
	c.Flags().DurationVar(&f.timeout, "timeout", 0, "how long to watch; 0: until interrupted")
	cli.CompleteFlag(c, "output", cli.TextFormats()...)
	a.ClientFlags(c)
	return c
}

func watchObjects(ctx context.Context, s *cli.Session, args []string, f watchFlags) error {
	if err := cli.CheckFormat(f.output, cli.TextFormats()...); err != nil {
		return err
	}
	targets, err := s.Targets(args)
	if err != nil {
		return err
	}
	if len(targets) > 1 {
		return cli.UsageErrorf("watch follows one type")
	}
	if err := f.CheckNamed(targets); err != nil {
		return err
	}
	report := printLine
	if f.output == cli.FormatJSON {
		report = printJSON
	}
	if f.timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, f.timeout)
		defer cancel()
		ctx = limited
	}
	live := !f.only
	return follow(ctx, s, targets[0], f.Where, f.selector, func(c changes.Change) error {
		if !live {
			return nil
		}
		return report(s, targets[0].Kind, c)
	}, func() error {
		live = true
		return nil
	})
}

func printLine(s *cli.Session, k client.Kind, c changes.Change) error {
	now := s.Clock()
	_, err := fmt.Fprintf(s.Stdout, "%s  %s  %s%s\n", terminal.Clock(now, now), changeColour(s.Ink(), c.Typ),
		terminal.Printable(terminal.WithNamespace(printing.Key(k, c.Object.GetMetadata().GetName()), c.Object.GetMetadata().GetNamespace())),
		terminal.Prefixed("  ", terminal.Printable(strings.Join(changes.Of(c, s.OwnerKey), "; "))))
	return err
}

// changeColour colours the type of a change.
func changeColour(i terminal.Ink, typ string) string {
	padded := fmt.Sprintf("%-8s", typ)
	switch typ {
	case changes.Added:
		return i.Green(padded)
	case changes.Deleted:
		return i.Red(padded)
	}
	return i.Yellow(padded)
}

// watched is a change for programs.
type watched struct {
	Time    time.Time `json:"time"`
	Type    string    `json:"type"`
	Reason  string    `json:"reason,omitempty"`
	Changes []string  `json:"changes,omitempty"`
	Object  any       `json:"object"`
}

func printJSON(s *cli.Session, _ client.Kind, c changes.Change) error {
	o, err := manifest.Generic(c.Object)
	if err != nil {
		return err
	}
	return json.NewEncoder(s.Stdout).Encode(watched{
		Time: s.Clock().UTC(), Type: c.Typ, Reason: history.ReasonName(c.Reason), Changes: changes.Of(c, s.OwnerKey), Object: o,
	})
}

// watchTable is get -w: the table, and then a row for each change.
func watchTable(ctx context.Context, s *cli.Session, t cli.Target, f getFlags) error {
	format, err := cli.ParseOutput(f.output, cli.ObjectFormats()...)
	if err != nil {
		return err
	}
	p := s.Printer(ctx, f.table(), format, false, false)
	table, _ := p.(*printing.TablePrinter)
	live := false
	synced := func() error {
		live = true
		if table != nil {
			return table.Table.Flush()
		}
		return nil
	}
	return follow(ctx, s, t, f.Where, f.selector, func(c changes.Change) error {
		switch {
		case !live && f.watchOnly:
			return nil
		case table == nil:
			return p.Object(t.Kind, c.Object)
		case !live:
			return table.Object(t.Kind, c.Object)
		}
		write := table.Object
		if c.Typ == changes.Deleted {
			write = table.Removed
		}
		if err := write(t.Kind, c.Object); err != nil {
			return err
		}
		return table.Table.Flush()
	}, synced)
}
