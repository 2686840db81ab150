package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
)

// AtFlag adds the flag of commands that can read the past.
func (a *App) AtFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.At, "at", "", "show an earlier state: a revision, a time in RFC 3339, or how long ago, such as 2h")
}

// Moment reads a revision, a time, or how long ago. The zero Moment is the present. In a recording, a duration
// is subtracted from the time of its last commit.
func (s *Session) Moment(ctx context.Context, text string) (m client.Moment, err error) {
	now := s.Clock()
	if _, err := time.ParseDuration(text); err == nil && s.Offline != "" {
		last, err := s.Client.At(ctx, client.Moment{})
		if err != nil {
			return m, err
		}
		now = last.Past().Time
	}
	return parseMoment(text, now)
}

// TimeOf reads the value of a flag that says when: a time, or how long ago.
func (s *Session) TimeOf(ctx context.Context, flag, text string) (t time.Time, err error) {
	m, err := s.Moment(ctx, text)
	switch {
	case err != nil || m.Revision > 0:
		return t, UsageErrorf("--%s=%s: write a time such as 2026-11-25T14:00:00Z, or how long ago, such as 2h", flag, text)
	case m.Time.IsZero():
		return s.Clock(), nil
	}
	return m.Time, nil
}

// Period reads --since and --until; the zero time stands for a flag that was not given.
func (s *Session) Period(ctx context.Context, since, until string) (from, to time.Time, err error) {
	if since != "" {
		if from, err = s.TimeOf(ctx, "since", since); err != nil {
			return from, to, err
		}
	}
	if until != "" {
		if to, err = s.TimeOf(ctx, "until", until); err != nil {
			return from, to, err
		}
		if to.Before(from) {
			return from, to, UsageErrorf("--until=%s is before --since=%s", until, since)
		}
	}
	return from, to, nil
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
		return m, UsageErrorf("%q is no point of the past: write a revision from 1 on, a time such as 2026-11-25T14:00:00Z, or how long ago, such as 2h", text)
	}
	if ago == 0 {
		return client.Moment{}, nil
	}
	return client.Moment{Time: now.Add(-ago)}, nil
}

// toPast has the session read the past that --at names, if it names one.
func (s *Session) toPast(ctx context.Context) error {
	if s.At == "" {
		return nil
	}
	m, err := s.Moment(ctx, s.At)
	if err != nil {
		return err
	}
	past, err := s.Past(ctx, m)
	if err != nil {
		return err
	}
	s.Client, s.Reader = past, s.reader(past)
	_, err = fmt.Fprintf(s.Stderr, "as of %s\n", pastText(past.Past()))
	return err
}

// Past returns a client that reads the realm as it was at a moment. It waits until the state is
// built, and shows how far that is.
func (s *Session) Past(ctx context.Context, m client.Moment) (*client.Client, error) {
	past, err := s.Client.At(ctx, m)
	if err != nil {
		return nil, err
	}
	for shown := ""; ; {
		_, err := past.Resource(client.KindsResource, "").ListPage(ctx, client.Limit(1))
		if !client.IsBuilding(err) || ctx.Err() != nil {
			return past, err
		}
		if text := err.Error(); text != shown && IsTerminal(s.Stderr) {
			shown = text
			_, _ = fmt.Fprintln(s.Stderr, text)
		}
	}
}

func (a *App) reader(c *client.Client) *lookup.Reader {
	r := lookup.New(c, nil, a.Stderr, a.Dial.Timeout, a.Clock)
	r.Recording = a.Offline != "" || c.Past() != nil
	if IsTerminal(a.Stderr) {
		r.Progress = a.Stderr
	}
	return r
}

func pastText(p *client.Past) string {
	return fmt.Sprintf("revision %d, %s", p.Revision, p.Time.Format(time.RFC3339))
}
