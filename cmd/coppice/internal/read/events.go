package read

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
)

type eventsFlags struct {
	cli.Where
	about  string // TYPE/NAME
	last   int
	all    bool // --last was not given, and there is no default
	since  string
	until  string
	actors []string
	follow bool
	output string
}

// EventsCommand returns the command `coppice events`.
func EventsCommand(a *cli.App) *cobra.Command {
	var f eventsFlags
	var c *cobra.Command
	c = &cobra.Command{
		Use:     "events [TYPE/NAME]",
		GroupID: "operate",
		Short:   "Read the event log: what happened, and why",
		Long: `Show the last events of the realm, or of one object, each with its causes: from
the nearest back to the command of a client. The output includes warnings, such as
an owner reference that can never be valid or a finalizer without a consumer.
MessageSkipped is a message in the log that is no commit of the realm, with its
sequence: graph services skip it. LossAccepted, RealmContinued, RealmResumed and
KeyChanged are about the realm, with the sequence of the commit that records them.

--since shows all events from a time on, and with --last the last ones of these.
--actor shows the events of the commands of an actor, without warnings.
'coppice audit' writes all of this for programs.`,
		Example: `  coppice events --last 50
  coppice events --actor ana --since 2h
  coppice events pods/web-1 -n shop
  coppice events --follow -o json`,
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: a.CompleteTargets(&f.Where),
		RunE: a.InSession(func(ctx context.Context, s *cli.Session, args []string) error {
			if f.about != "" {
				if len(args) > 0 {
					return cli.UsageErrorf("an object is named twice: by --for and by an argument")
				}
				args = []string{f.about}
			}
			f.all = f.since != "" && !c.Flags().Changed("last")
			return printEvents(ctx, s, args, f)
		}),
	}
	c.Flags().StringVarP(&f.Namespace, "namespace", "n", "", "events of objects in this namespace only")
	c.Flags().BoolVarP(&f.AllNamespaces, "all-namespaces", "A", false, "events of objects in all namespaces, which is the default")
	c.Flags().StringVar(&f.about, "for", "", "events of this object only: TYPE/NAME, the same as the argument")
	c.Flags().IntVar(&f.last, "last", 20, "number of past events to show; with --since all, unless it is given")
	c.Flags().StringVar(&f.since, "since", "", "events from this time on: a time in RFC 3339, or how long ago, such as 2h")
	c.Flags().StringVar(&f.until, "until", "", "events before this time")
	c.Flags().StringSliceVar(&f.actors, "actor", nil, "events of the commands of these actors only")
	c.Flags().BoolVarP(&f.follow, "follow", "f", false, "then show new events, until interrupted")
	c.Flags().BoolVarP(&f.follow, "watch", "w", false, "the same as --follow")
	c.Flags().StringVarP(&f.output, "output", "o", cli.FormatText, "text or json")
	cli.CompleteFlag(c, "output", cli.TextFormats()...)
	a.ClientFlags(c)
	a.OfflineFlag(c)
	return c
}

func printEvents(ctx context.Context, s *cli.Session, args []string, f eventsFlags) error {
	if err := cli.CheckFormat(f.output, cli.TextFormats()...); err != nil {
		return err
	}
	if f.last < 0 {
		return cli.UsageErrorf("--last=%d: choose 0 or more", f.last)
	}
	switch {
	case f.follow && s.Offline != "":
		return cli.UsageErrorf("--follow does not go with --offline: a recording does not grow")
	case f.follow && f.until != "":
		return cli.UsageErrorf("--follow does not go with --until: new events are later")
	}
	since, until, err := s.Period(ctx, f.since, f.until)
	if err != nil {
		return err
	}
	if f.AllNamespaces {
		f.Namespace = ""
	}
	match := func(e *client.LogEvent) bool { return f.Namespace == "" || e.Namespace == f.Namespace }
	warned := func(w client.Warning) bool {
		return len(f.actors) == 0 && within(w.Time, since, until) && match(&client.LogEvent{Resource: w.Resource, Namespace: w.Namespace, Name: w.Name})
	}
	about := client.LogOptions{Namespace: f.Namespace}
	if len(args) > 0 {
		k, name, err := s.OneObject(args)
		if err != nil {
			return err
		}
		about.Name = name
		resource := client.ResourceOf(k).String()
		match = func(e *client.LogEvent) bool {
			return e.Name == name && e.Resource == resource && (f.Namespace == "" || e.Namespace == f.Namespace)
		}
	}
	if object := match; len(f.actors) > 0 || f.until != "" {
		match = func(e *client.LogEvent) bool {
			return (len(f.actors) == 0 || slices.Contains(f.actors, e.Actor)) && within(e.Time, since, until) && object(e)
		}
	}
	h, err := s.History(ctx)
	if err != nil {
		return err
	}
	w := &history.Writer{W: s.Stdout, Ink: s.Ink(), JSON: f.output == cli.FormatJSON, Now: s.Clock, Find: h.Find}
	from := h.Last + 1
	past := &pastEvents{Session: s, h: h, w: w, about: about, match: match, warned: warned, last: f.last}
	switch {
	case f.since != "":
		past.all = f.all
		err = past.period(ctx, since, until)
	case f.last > 0:
		err = past.tail(ctx)
	}
	if err != nil {
		return err
	}
	if !f.follow {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return followEvents(ctx, s, h, from, match, w) })
	g.Go(func() error { return followWarnings(ctx, s, warned, w) })
	return g.Wait()
}

// followEvents writes the events of commits from a sequence on, until ctx ends. It
// reads the kinds again after one was registered.
func followEvents(ctx context.Context, s *cli.Session, h *history.History, from uint64, match func(*client.LogEvent) bool, w *history.Writer) error {
	var before time.Time // when the last commit was made
	for c, err := range h.Log.Read(ctx, client.FromSequence(from), client.Follow(true), client.IncludeSkipped(true)) {
		if err != nil {
			return err
		}
		if c.Commit == nil {
			if e := h.Skip(c, before); match(&e) {
				if err := w.Event(ctx, e); err != nil {
					return err
				}
			}
			continue
		}
		before = time.UnixMicro(c.GetTime()).UTC()
		p := h.Keep(c.Sequence, c.Commit)
		entries := p.Entries()
		for i := range entries {
			if !match(&entries[i]) {
				continue
			}
			if err := w.Event(ctx, entries[i]); err != nil && ctx.Err() == nil {
				return err
			}
		}
		if slices.ContainsFunc(p.Events, func(e client.LogEvent) bool { return e.Resource == client.KindsResource.String() }) {
			if err := s.ReadKindsAt(ctx, p.Events[len(p.Events)-1].Revision); err != nil {
				return err
			}
			h.Resources = s.Kinds.ResourceName
		}
	}
	return nil
}

// followWarnings prints warnings from now on, until ctx ends. They are optional.
func followWarnings(ctx context.Context, s *cli.Session, match func(client.Warning) bool, w *history.Writer) error {
	for warning, err := range s.Client.FollowWarnings(ctx) {
		if errors.Is(err, client.ErrForbidden) {
			s.Missing(lookup.AboutWarnings, err)
			return nil
		}
		if err != nil {
			return err
		}
		if !match(warning) {
			continue
		}
		if err := w.Warning(warning); err != nil {
			return err
		}
	}
	return nil
}
