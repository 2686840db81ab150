package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
)

// warnings returns the warnings about an object, or about all objects, that match.
// They are optional.
func (s *session) warnings(ctx context.Context, uid string, match func(client.Warning) bool) ([]client.Warning, error) {
	if s.offline != "" {
		return nil, nil // the log has none
	}
	var all []client.Warning
	ok, err := s.optional(ctx, aboutWarnings, func(ctx context.Context) (err error) {
		all, err = s.c.Warnings(ctx, uid)
		return err
	})
	if !ok {
		return nil, err
	}
	var found []client.Warning
	for _, w := range all {
		if match(w) {
			found = append(found, w)
		}
	}
	return found, nil
}

// followWarnings prints warnings from now on, until ctx ends. They are optional.
func (s *session) followWarnings(ctx context.Context, match func(client.Warning) bool, w *eventWriter) error {
	for warning, err := range s.c.FollowWarnings(ctx) {
		if errors.Is(err, client.ErrForbidden) {
			s.missing(aboutWarnings, err)
			return nil
		}
		if err != nil {
			return err
		}
		if !match(warning) {
			continue
		}
		if err := w.warn(warning); err != nil {
			return err
		}
	}
	return nil
}

// writeAll writes the last of events and warnings, in the order of time.
func (w *eventWriter) writeAll(ctx context.Context, events []client.LogEvent, warnings []client.Warning, last int) error {
	skip := max(len(events)+len(warnings)-last, 0)
	for len(events)+len(warnings) > 0 {
		var err error
		if len(events) == 0 || len(warnings) > 0 && warnings[0].Time.Before(events[0].Time) {
			if skip <= 0 {
				err = w.warn(warnings[0])
			}
			warnings = warnings[1:]
		} else {
			if skip <= 0 {
				err = w.write(ctx, events[0])
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

func (w *eventWriter) warn(warning client.Warning) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.json {
		return json.NewEncoder(w.w).Encode(eventJSON{
			Time: warning.Time, Type: "Warning", Resource: warning.Resource, Namespace: warning.Namespace, Name: warning.Name, UID: warning.UID,
			Reason: warning.Reason, Detail: warning.Message,
		})
	}
	_, err := fmt.Fprintf(w.w, "%6s  %s  %s  %s  %s: %s\n", "", console.Clock(warning.Time, w.now()), w.ink.Yellow(fmt.Sprintf("%-14s", "Warning")),
		console.Printable(console.WithNamespace(warning.Key(), warning.Namespace)), warning.Reason, console.Printable(warning.Message))
	return err
}
