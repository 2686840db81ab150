package recordings

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/recorder"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/segment"
)

type recordFlags struct {
	out      string
	from, to uint64
	follow   bool
}

// RecordCommand returns the command `coppice record`.
func RecordCommand(a *cli.App) *cobra.Command {
	var f recordFlags
	c := &cobra.Command{
		Use:     "record --out FILE",
		GroupID: "operate",
		Short:   "Record the event log of a realm into a file",
		Long: `Write the commits of a realm's log to a file, as they are in the log: the bytes from which
every reader of the log learns what happened. The user needs the verb readlog only.

If the file exists, it must be a recording of the same log, and is continued behind its
last commit: the same command continues after an interruption, and again whenever the log
has grown. An interrupt completes the file.

A recording has the contents of deleted objects, secrets among them. 'coppice log' reads
it, and 'coppice replay' makes objects of it again.`,
		Example: `  coppice record --out shop.log
  coppice record --out shop.log --follow
  coppice record --out part.log --from 1000 --to 2000`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.out == "" {
				return cli.NewUsageError(c, errors.New("no file is named: write --out FILE"))
			}
			if f.to != 0 && f.to < f.from {
				return cli.NewUsageError(c, fmt.Errorf("--to=%d is before --from=%d", f.to, f.from))
			}
			return record(c.Context(), a, f)
		},
	}
	c.Flags().StringVar(&f.out, "out", "", "the file to write or to continue")
	c.Flags().Uint64Var(&f.from, "from", 0, "the revision to begin with (default: the first of the log)")
	c.Flags().Uint64Var(&f.to, "to", 0, "the revision to end with (default: the last)")
	c.Flags().BoolVarP(&f.follow, "follow", "f", false, "go on with new commits, until interrupted or --to is reached")
	a.ClientFlags(c)
	return c
}

// flushEvery is the time after which commits are written to the file.
const flushEvery = 5 * time.Second

func record(ctx context.Context, a *cli.App, f recordFlags) error {
	c, nc, err := a.NewClient(ctx)
	if err != nil {
		return err
	}
	defer nc.Close()
	nc.SetErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}) // requests return the reason
	r, err := recorder.Open(f.out)
	if err != nil {
		return err
	}
	if before, ok := r.Before(); ok && f.from > 0 && (f.from <= before.Revision || f.from > r.Last().Revision+1) {
		_, err := r.Close()
		return errors.Join(fmt.Errorf("--from=%d: %s has the revisions %d to %d already, and can only be continued; record into another file",
			f.from, f.out, before.Revision+1, r.Last().Revision), err)
	}
	rec := &recordRun{App: a, recordFlags: f, log: c.Log(), r: r}
	stop := rec.flushRegularly()
	failure := rec.run(ctx)
	stop()
	return rec.end(ctx, failure)
}

// recordRun is a run of record.
type recordRun struct {
	*cli.App
	recordFlags
	log client.LogClient
	r   *recorder.Recorder
}

// flushPause is the pause before commits are written to a file that has a number of blocks. It increases, so that
// a recording that follows a log for years does not reach the maximum number of blocks.
func flushPause(blocks int) time.Duration {
	const slower = 1 << 14 // blocks after which the pause is longer by flushEvery
	return time.Duration(1+blocks/slower) * flushEvery
}

// flushRegularly writes commits to the file from time to time, until stop is called.
func (rec *recordRun) flushRegularly() (stop func()) {
	stopping, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stopping:
				return
			case <-time.After(flushPause(rec.r.Blocks())):
				_ = rec.r.Flush() // the next call that writes returns the error too
			}
		}
	}()
	return func() {
		close(stopping)
		<-stopped
	}
}

// reached reports whether the last commit is the one to end with.
func (rec *recordRun) reached() bool { return rec.to > 0 && rec.r.Last().Revision >= rec.to }

// run records until the end that the flags name, or until ctx ends.
func (rec *recordRun) run(ctx context.Context) error {
	if rec.reached() {
		return nil
	}
	last, err := rec.log.Last(ctx)
	if err != nil {
		return err
	}
	begin, err := rec.begin(ctx)
	if err != nil {
		return err
	}
	bar := rec.Bar("recording", "commit")
	defer bar.Clear()
	for c, err := range rec.log.Read(ctx, begin, client.Follow(rec.follow), client.Undecoded(true)) {
		if err != nil {
			return err
		}
		if bar.Total == 0 {
			bar.Total = int64(max(last+1, c.Sequence+1) - c.Sequence)
		}
		if _, err := rec.r.Add(c.Sequence, c.Stored, rec.from); err != nil {
			return err
		}
		if bar.Add(1); c.Sequence == last {
			bar.Clear()
			bar.W = nil // what follows has no known end
		}
		if rec.reached() {
			return nil
		}
	}
	return ctx.Err()
}

// begin returns where to read from. If the file has commits, it checks that the log is the
// one that they are from.
func (rec *recordRun) begin(ctx context.Context) (client.LogOption, error) {
	at := rec.r.Last()
	switch {
	case at.Sequence == 0 && rec.from > 0:
		return client.FromRevision(rec.from), nil
	case at.Sequence == 0:
		return client.FromSequence(1), nil
	}
	last, err := rec.log.Last(ctx)
	if err == nil && last < at.Position {
		err = &recorder.OtherError{What: fmt.Sprintf("its last commit is at position %d, and the realm's log ends at %d", at.Position, last)}
	}
	if err != nil {
		return nil, err
	}
	for c, err := range rec.log.Read(ctx, client.FromSequence(at.Position), client.ToSequence(at.Position), client.Undecoded(true)) {
		if errors.Is(err, client.ErrExpired) {
			break // the next commit names the checksum of this one
		}
		if err == nil {
			err = rec.r.Check(c.Sequence, c.Stored)
		}
		if err != nil {
			return nil, err
		}
		return client.FromSequence(at.Position + 1), nil
	}
	return client.FromSequence(at.Position + 1), ctx.Err()
}

// end completes the file and reports what it has.
func (rec *recordRun) end(ctx context.Context, failure error) error {
	info, err := rec.r.Close()
	interrupted := ctx.Err() != nil && (failure == nil || errors.Is(failure, context.Canceled))
	if interrupted && rec.follow {
		failure = nil
	}
	missing := errors.Is(failure, client.ErrExpired)
	if missing {
		failure = fmt.Errorf("%w; record what follows them into another file, with this --from", failure)
	}
	added, skipped := rec.r.Added()
	switch {
	case errors.Is(err, segment.ErrNoCommits) && failure == nil:
		return fmt.Errorf("nothing is recorded: the log has no revision %d yet", max(rec.from, 1))
	case errors.Is(err, segment.ErrNoCommits):
		return failure
	case err != nil:
		return errors.Join(failure, err)
	}
	if skipped > 0 {
		_, _ = fmt.Fprintf(rec.Stderr, "left out %s of an older history of the realm\n", terminal.Count(int(skipped), "commit"))
	}
	if err := writeRecorded(rec.Stdout, rec.out, &info, added); err != nil {
		return errors.Join(failure, err)
	}
	switch {
	case errors.Is(failure, segment.ErrFull):
		return fmt.Errorf("%w; record what follows into another file, with --from=%d", failure, info.Last.Revision+1)
	case missing:
		return failure
	case failure != nil:
		return fmt.Errorf("%w; repeat the command to continue", failure)
	case rec.to > info.Last.Revision && !interrupted:
		return fmt.Errorf("the log ends at revision %d, before --to=%d; repeat the command with --follow to wait for it", info.Last.Revision, rec.to)
	}
	return nil
}

func writeRecorded(w io.Writer, name string, info *segment.Info, added uint64) error {
	_, err := fmt.Fprintf(w, "%s: %s, sequence %d to %d, up to revision %d, %s; %d of them new\n", name, terminal.Count(int(info.Commits), "commit"),
		info.Before.Sequence+1, info.Last.Sequence, info.Last.Revision, terminal.Bytes(info.Size), added)
	return err
}
