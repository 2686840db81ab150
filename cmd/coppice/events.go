package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/changes"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
)

type eventsFlags struct {
	where
	about  string // TYPE/NAME
	last   int
	follow bool
	output string
}

func (a *app) eventsCommand() *cobra.Command {
	var f eventsFlags
	c := &cobra.Command{
		Use:     "events [TYPE/NAME]",
		GroupID: "operate",
		Short:   "Read the event log: what happened, and why",
		Long: `Show the last events of the realm, or of one object, each with its causes: from
the nearest back to the command of a client. The output includes warnings, such as
an owner reference that can never be valid or a finalizer without a consumer.
MessageSkipped is a message in the log that is no commit of the realm, with its
sequence: graph services skip it.`,
		Example: `  coppice events --last 50
  coppice events pods/web-1 -n shop
  coppice events --follow -o json`,
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: a.completeTargets(&f.where),
		RunE: a.in(func(ctx context.Context, s *session, args []string) error {
			if f.about != "" {
				if len(args) > 0 {
					return wrong("an object is named twice: by --for and by an argument")
				}
				args = []string{f.about}
			}
			return s.events(ctx, args, f)
		}),
	}
	c.Flags().StringVarP(&f.namespace, "namespace", "n", "", "events of objects in this namespace only")
	c.Flags().StringVar(&f.about, "for", "", "events of this object only: TYPE/NAME, the same as the argument")
	c.Flags().IntVar(&f.last, "last", 20, "number of past events to show")
	c.Flags().BoolVarP(&f.follow, "follow", "f", false, "then show new events, until interrupted")
	c.Flags().StringVarP(&f.output, "output", "o", formatText, "text or json")
	completeFlag(c, "output", textFormats()...)
	a.clientFlags(c)
	a.offlineFlag(c)
	return c
}

// maxCommits is how far back events of an object are looked for.
const maxCommits = 100000

func (s *session) events(ctx context.Context, args []string, f eventsFlags) error {
	if err := checkFormat(f.output, textFormats()...); err != nil {
		return err
	}
	if f.last < 0 {
		return wrong("--last=%d: choose 0 or more", f.last)
	}
	if f.follow && s.offline != "" {
		return wrong("--follow does not go with --offline: a recording does not grow")
	}
	match := func(e *client.LogEvent) bool { return f.namespace == "" || e.Namespace == f.namespace }
	warned := func(w client.Warning) bool {
		return match(&client.LogEvent{Resource: w.Resource, Namespace: w.Namespace, Name: w.Name})
	}
	about := client.LogOptions{Namespace: f.namespace}
	if len(args) > 0 {
		k, name, err := s.one(args)
		if err != nil {
			return err
		}
		about.Name = name
		resource := client.ResourceOf(k).String()
		match = func(e *client.LogEvent) bool {
			return e.Name == name && e.Resource == resource && (f.namespace == "" || e.Namespace == f.namespace)
		}
	}
	h, err := s.history(ctx)
	if err != nil {
		return err
	}
	w := &eventWriter{w: s.stdout, ink: s.ink(), json: f.output == formatJSON, now: s.now, find: h.Find}
	from := h.Last + 1
	if f.last > 0 {
		found, complete, err := h.Tail(ctx, f.last, maxCommits, about, match)
		if err != nil {
			return err
		}
		if !complete && len(found) < f.last {
			_, _ = fmt.Fprintf(s.stderr, "searched only the last %d commits\n", maxCommits)
		}
		warnings, err := s.warnings(ctx, "", warned)
		if err != nil {
			return err
		}
		if err := w.writeAll(ctx, found, warnings, f.last); err != nil {
			return err
		}
	}
	if !f.follow {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.followEvents(ctx, h, from, match, w) })
	g.Go(func() error { return s.followWarnings(ctx, warned, w) })
	return g.Wait()
}

// history opens the history of the realm.
func (s *session) history(ctx context.Context) (*history.History, error) {
	return history.Open(ctx, s.c.Log(), s.kinds.ResourceName)
}

// followEvents writes the events of commits from a sequence on, until ctx ends. It
// reads the kinds again after one was registered.
func (s *session) followEvents(ctx context.Context, h *history.History, from uint64, match func(*client.LogEvent) bool, w *eventWriter) error {
	var before time.Time // when the last commit was made
	for c, err := range h.Log.Read(ctx, client.FromSequence(from), client.Follow(true), client.WithSkipped(true)) {
		if err != nil {
			return err
		}
		if c.Commit == nil {
			if e := h.Skip(c, before); match(&e) {
				if err := w.write(ctx, e); err != nil {
					return err
				}
			}
			continue
		}
		before = time.UnixMicro(c.GetTime()).UTC()
		p := h.Keep(c.Sequence, c.Commit)
		for i := range p.Events {
			if !match(&p.Events[i]) {
				continue
			}
			if err := w.write(ctx, p.Events[i]); err != nil && ctx.Err() == nil {
				return err
			}
		}
		if slices.ContainsFunc(p.Events, func(e client.LogEvent) bool { return e.Resource == client.KindsResource.String() }) {
			if err := s.relearnAt(ctx, p.Events[len(p.Events)-1].Revision); err != nil {
				return err
			}
			h.Resources = s.kinds.ResourceName
		}
	}
	return nil
}

// eventWriter writes events with their causes, and warnings.
type eventWriter struct {
	mu   sync.Mutex
	w    io.Writer
	ink  console.Ink
	json bool
	now  func() time.Time
	find history.Finder
}

// eventJSON is an event for programs.
type eventJSON struct {
	Revision  uint64    `json:"revision,omitempty"` // none for a warning
	Time      time.Time `json:"time,omitzero"`
	Type      string    `json:"type"`
	Resource  string    `json:"resource"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       string    `json:"uid"`
	Actor     string    `json:"actor,omitempty"`
	Verb      string    `json:"verb,omitempty"`
	Note      string    `json:"note,omitempty"`
	Reason    string    `json:"reason"`
	Cause     uint64    `json:"cause,omitempty"`
	Detail    string    `json:"detail,omitempty"`
	Because   []string  `json:"because,omitempty"`
}

func (w *eventWriter) write(ctx context.Context, e client.LogEvent) error {
	var why []string
	if e.Type != history.MessageSkipped {
		var err error
		if why, err = history.Because(ctx, e, w.find); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.json {
		return json.NewEncoder(w.w).Encode(eventJSON{
			Revision: e.Revision, Time: e.Time, Type: e.Type, Resource: e.Resource, Namespace: e.Namespace, Name: e.Name, UID: e.UID,
			Actor: e.Actor, Verb: e.Verb, Note: e.Note, Reason: changes.ReasonName(e.Reason), Cause: e.Cause, Detail: e.Detail, Because: why,
		})
	}
	_, err := fmt.Fprintln(w.w, w.line(e, why))
	return err
}

func (w *eventWriter) line(e client.LogEvent, why []string) string {
	typ := fmt.Sprintf("%-14s", e.Type)
	switch e.Type {
	case "ObjectCreated":
		typ = w.ink.Green(typ)
	case "ObjectDeleted":
		typ = w.ink.Red(typ)
	case "DeletionMarked", history.MessageSkipped:
		typ = w.ink.Yellow(typ)
	}
	revision, at := fmt.Sprint(e.Revision), ""
	if e.Type == history.MessageSkipped {
		revision = ""
	}
	if !e.Time.IsZero() {
		at = console.Clock(e.Time, w.now())
	}
	said := console.WithNamespace(e.Key(), e.Namespace)
	if e.Type != "ObjectDeleted" {
		said += console.Prefixed("  ", e.Detail)
	}
	return fmt.Sprintf("%6s  %8s  %s  %s%s", revision, at, typ, console.Printable(said),
		w.ink.Dim(console.Prefixed("  because ", console.Printable(strings.Join(why, ", because ")))))
}
