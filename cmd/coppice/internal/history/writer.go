package history

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Writer writes events with their causes, and warnings. It is safe for concurrent use if
// Find is.
type Writer struct {
	W    io.Writer
	Ink  terminal.Ink
	JSON bool // an object a line, for programs
	Now  func() time.Time
	Find Finder

	mu sync.Mutex // for W
}

// eventJSON is an event or a warning for programs.
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

// Event writes an event.
func (w *Writer) Event(ctx context.Context, e client.LogEvent) error {
	why, err := Because(ctx, e, w.Find)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.JSON {
		return json.NewEncoder(w.W).Encode(eventJSON{
			Revision: e.Revision, Time: e.Time, Type: e.Type, Resource: e.Resource, Namespace: e.Namespace, Name: e.Name, UID: e.UID,
			Actor: e.Actor, Verb: e.Verb, Note: e.Note, Reason: ReasonName(e.Reason), Cause: e.Cause, Detail: e.Detail, Because: why,
		})
	}
	_, err = fmt.Fprintln(w.W, w.line(e, why))
	return err
}

func (w *Writer) line(e client.LogEvent, why []string) string {
	typ := fmt.Sprintf("%-14s", e.Type)
	switch e.Type {
	case created:
		typ = w.Ink.Green(typ)
	case "ObjectDeleted":
		typ = w.Ink.Red(typ)
	case "DeletionMarked", MessageSkipped, "LossAccepted":
		typ = w.Ink.Yellow(typ)
	}
	revision, at := fmt.Sprint(e.Revision), ""
	if e.Revision == 0 {
		revision = ""
	}
	if !e.Time.IsZero() {
		at = terminal.Clock(e.Time, w.Now())
	}
	said := terminal.WithNamespace(e.Key(), e.Namespace)
	if e.Type != "ObjectDeleted" {
		said += terminal.Prefixed("  ", e.Detail)
	}
	return fmt.Sprintf("%6s  %8s  %s  %s%s", revision, at, typ, terminal.Printable(said),
		w.Ink.Dim(terminal.Prefixed("  because ", terminal.Printable(strings.Join(why, ", because ")))))
}

// Warning writes a warning.
func (w *Writer) Warning(warning client.Warning) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.JSON {
		return json.NewEncoder(w.W).Encode(eventJSON{
			Time: warning.Time, Type: "Warning", Resource: warning.Resource, Namespace: warning.Namespace, Name: warning.Name, UID: warning.UID,
			Reason: warning.Reason, Detail: warning.Message,
		})
	}
	_, err := fmt.Fprintf(w.W, "%6s  %s  %s  %s  %s: %s\n", "", terminal.Clock(warning.Time, w.Now()), w.Ink.Yellow(fmt.Sprintf("%-14s", "Warning")),
		terminal.Printable(terminal.WithNamespace(warning.Key(), warning.Namespace)), warning.Reason, terminal.Printable(warning.Message))
	return err
}

// All writes the last of events and warnings, each in the order of time, at most last of
// both.
func (w *Writer) All(ctx context.Context, events []client.LogEvent, warnings []client.Warning, last int) error {
	skip := max(len(events)+len(warnings)-last, 0)
	for len(events)+len(warnings) > 0 {
		var err error
		if len(events) == 0 || len(warnings) > 0 && warnings[0].Time.Before(events[0].Time) {
			if skip <= 0 {
				err = w.Warning(warnings[0])
			}
			warnings = warnings[1:]
		} else {
			if skip <= 0 {
				err = w.Event(ctx, events[0])
			}
			events = events[1:]
		}
		if err != nil {
			return err
		}
		skip--
	}
	return nil
}

// ReasonName returns a reason for programs: "OwnerAbsent"; "" if it is unspecified.
func ReasonName(r coppicev1.Reason) string {
	if r == coppicev1.Reason_REASON_UNSPECIFIED {
		return ""
	}
	return terminal.Camel(r.String(), "REASON_")
}
