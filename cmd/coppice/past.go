package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
)

// atFlag adds the flag of commands that can read the past.
func (a *app) atFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.at, "at", "", "show an earlier state: a revision, a time in RFC 3339, or how long ago, such as 2h")
}

// moment reads a revision, a time, or how long ago. The zero Moment is the present. In a recording, a duration
// is subtracted from the time of its last commit.
func (s *session) moment(ctx context.Context, text string) (m client.Moment, err error) {
	now := s.now()
	if _, err := time.ParseDuration(text); err == nil && s.offline != "" {
		last, err := s.c.At(ctx, client.Moment{})
		if err != nil {
			return m, err
		}
		now = last.Past().Time
	}
	return parseMoment(text, now)
}

// parseMoment reads a revision, a time, or a duration that is subtracted from now.
func parseMoment(text string, now time.Time) (m client.Moment, err error) {
	if m.Revision, err = strconv.ParseUint(text, 10, 64); err == nil && m.Revision > 0 {
		return m, nil
	}
	if m.Time, err = time.Parse(time.RFC3339Nano, text); err == nil {
		return client.Moment{Time: m.Time}, nil
	}
	ago, err := time.ParseDuration(text)
	if err != nil || ago < 0 || text == "0" { // there is no revision 0
		return m, wrong("%q is no point of the past: write a revision from 1 on, a time such as 2026-11-25T14:00:00Z, or how long ago, such as 2h", text)
	}
	if ago == 0 {
		return client.Moment{}, nil
	}
	return client.Moment{Time: now.Add(-ago)}, nil
}

// toPast has the session read the past that --at names, if it names one.
func (s *session) toPast(ctx context.Context) error {
	if s.at == "" {
		return nil
	}
	m, err := s.moment(ctx, s.at)
	if err != nil {
		return err
	}
	past, err := s.past(ctx, m)
	if err != nil {
		return err
	}
	s.c, s.Reader = past, s.reader(past)
	_, err = fmt.Fprintf(s.stderr, "as of %s\n", pastText(past.Past()))
	return err
}

// past returns a client that reads the realm as it was at a moment. It waits until the state is
// built, and shows how far that is.
func (s *session) past(ctx context.Context, m client.Moment) (*client.Client, error) {
	past, err := s.c.At(ctx, m)
	if err != nil {
		return nil, err
	}
	for shown := ""; ; {
		_, err := past.Resource(client.KindsResource, "").ListPage(ctx, client.Limit(1))
		if !client.IsBuilding(err) || ctx.Err() != nil {
			return past, err
		}
		if text := err.Error(); text != shown && isTerminal(s.stderr) {
			shown = text
			_, _ = fmt.Fprintln(s.stderr, text)
		}
	}
}

func (a *app) reader(c *client.Client) *lookup.Reader {
	r := lookup.New(c, nil, a.stderr, a.dial.Timeout, a.now)
	r.Recording = a.offline != "" || c.Past() != nil
	if isTerminal(a.stderr) {
		r.Progress = a.stderr
	}
	return r
}

func pastText(p *client.Past) string {
	return fmt.Sprintf("revision %d, %s", p.Revision, p.Time.Format(time.RFC3339))
}
