package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/changes"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/internal/manifest"
)

type watchFlags struct {
	where
	selector string
	output   string
	only     bool
	timeout  time.Duration
}

func (a *app) watchCommand() *cobra.Command {
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
		ValidArgsFunction: a.completeTargets(&f.where),
		RunE: a.in(func(ctx context.Context, s *session, args []string) error {
			return s.watch(ctx, args, f)
		}),
	}
	f.flags(c, true)
	f.uninitializedFlag(c)
	c.Flags().StringVarP(&f.selector, "selector", "l", "", "label selector")
	c.Flags().StringVarP(&f.output, "output", "o", formatText, "text or json")
	c.Flags().BoolVar(&f.only, "watch-only", false, "print changes only, not the existing objects")
	c.Flags().DurationVar(&f.timeout, "timeout", 0, "how long to watch; 0: until interrupted")
	completeFlag(c, "output", textFormats()...)
	a.clientFlags(c)
	return c
}

func (s *session) watch(ctx context.Context, args []string, f watchFlags) error {
	if err := checkFormat(f.output, textFormats()...); err != nil {
		return err
	}
	targets, err := s.targets(args)
	if err != nil {
		return err
	}
	if len(targets) > 1 {
		return wrong("watch follows one type")
	}
	if err := f.checkNamed(targets); err != nil {
		return err
	}
	report := printLine
	if f.output == formatJSON {
		report = printJSON
	}
	if f.timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, f.timeout)
		defer cancel()
		ctx = limited
	}
	live := !f.only
	return s.follow(ctx, targets[0], f.where, f.selector, func(c changes.Change) error {
		if !live {
			return nil
		}
		return report(s, targets[0].kind, c)
	}, func() error {
		live = true
		return nil
	})
}

func printLine(s *session, k client.Kind, c changes.Change) error {
	now := s.now()
	_, err := fmt.Fprintf(s.stdout, "%s  %s  %s%s\n", console.Clock(now, now), changeColour(s.ink(), c.Typ),
		console.Printable(console.WithNamespace(printing.Key(k, c.Object.GetMetadata().GetName()), c.Object.GetMetadata().GetNamespace())),
		console.Prefixed("  ", console.Printable(strings.Join(changes.Of(c, s.OwnerKey), "; "))))
	return err
}

// changeColour colours the type of a change.
func changeColour(i console.Ink, typ string) string {
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

func printJSON(s *session, _ client.Kind, c changes.Change) error {
	o, err := manifest.Generic(c.Object)
	if err != nil {
		return err
	}
	return json.NewEncoder(s.stdout).Encode(watched{
		Time: s.now().UTC(), Type: c.Typ, Reason: history.ReasonName(c.Reason), Changes: changes.Of(c, s.OwnerKey), Object: o,
	})
}

// watchTable is get -w: the table, and then a row for each change.
func (s *session) watchTable(ctx context.Context, t target, f getFlags) error {
	format, err := parseOutput(f.output, getFormats()...)
	if err != nil {
		return err
	}
	p := s.printer(ctx, f.table(), format, false, false)
	table, _ := p.(*printing.TablePrinter)
	live := false
	synced := func() error {
		live = true
		if table != nil {
			return table.Table.Flush()
		}
		return nil
	}
	return s.follow(ctx, t, f.where, f.selector, func(c changes.Change) error {
		switch {
		case !live && f.watchOnly:
			return nil
		case table == nil:
			return p.Object(t.kind, c.Object)
		case !live:
			return table.Object(t.kind, c.Object)
		}
		write := table.Object
		if c.Typ == changes.Deleted {
			write = table.Removed
		}
		if err := write(t.kind, c.Object); err != nil {
			return err
		}
		return table.Table.Flush()
	}, synced)
}
