package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
)

type flags struct {
	out, since, until string
	actors            []string
	namespace         string
	follow, resume    bool
}

// stdout is the value of --out for stdout.
const stdout = "-"

// Command returns the command `coppice audit`.
func Command(a *cli.App) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:     "audit",
		GroupID: "operate",
		Short:   "Write who changed what, as JSON lines",
		Long: `Write what the log of a realm says about commands: a JSON object on a line for each object
that a command changed, and for each other effect, with the time, the actor, the verb, the object,
what happened, the reason, and the command of a client that caused it in the end. The
archive is read where the log begins later.

A line of type gap stands for commits that neither the log nor the archive has, and for a message
in the log that is no commit. Such lines are written whatever --actor and --namespace select.

--resume continues a file behind its last line, without a gap and without writing anything twice,
also after a crash. Refused requests are not in the log.`,
		Example: `  coppice audit --out audit.jsonl --resume --follow
  coppice audit --out monday.jsonl --since 2026-11-23T00:00:00Z --until 2026-11-24T00:00:00Z
  coppice audit --actor ana --since 2h`,
		Args: cobra.NoArgs,
		RunE: a.InSession(func(ctx context.Context, s *cli.Session, _ []string) error { return audit(ctx, s, f) }),
	}
	c.Flags().StringVar(&f.out, "out", stdout, "the file to write, which only its owner can read; - for stdout")
	c.Flags().BoolVar(&f.resume, "resume", false, "continue the file behind its last line; --since applies to a new file only")
	c.Flags().StringVar(&f.since, "since", "", "begin at this time: a time in RFC 3339, or how long ago, such as 2h (default: the beginning of the log)")
	c.Flags().StringVar(&f.until, "until", "", "end before this time")
	c.Flags().StringSliceVar(&f.actors, "actor", nil, "commands of these actors only")
	c.Flags().StringVarP(&f.namespace, "namespace", "n", "", "objects in this namespace only")
	c.Flags().BoolVarP(&f.follow, "follow", "f", false, "go on with new commits, until interrupted")
	a.ClientFlags(c)
	a.OfflineFlag(c)
	return c
}

func audit(ctx context.Context, s *cli.Session, f flags) (err error) {
	switch {
	case f.follow && f.until != "":
		return cli.UsageErrorf("--follow does not go with --until: new commits are later")
	case f.follow && s.Offline != "":
		return cli.UsageErrorf("--follow does not go with --offline: a recording does not grow")
	case f.resume && f.out == stdout:
		return cli.UsageErrorf("--resume continues a file: name it with --out FILE")
	}
	since, until, err := s.Period(ctx, f.since, f.until)
	if err != nil {
		return err
	}
	h, err := s.History(ctx)
	if err != nil {
		return err
	}
	r := &run{Session: s, flags: f, until: until, h: h, origins: history.Origins{Find: h.Find}, names: history.Names{}}
	from, err := r.open(ctx, since)
	if err != nil {
		return err
	}
	failure := r.write(ctx, from)
	if err := r.out.close(); err != nil {
		return errors.Join(failure, err)
	}
	if f.follow && ctx.Err() != nil && (failure == nil || errors.Is(failure, context.Canceled)) {
		failure = nil // it was interrupted, as planned
	}
	if failure != nil {
		if f.out != stdout {
			failure = fmt.Errorf("%w; repeat the command with --resume to continue", failure)
		}
		return failure
	}
	return r.report()
}

// run is a run of audit.
type run struct {
	*cli.Session
	flags
	until   time.Time
	out     *output
	h       *history.History
	origins history.Origins
	names   history.Names

	after   Line      // lines of the commit at its position are written up to this one; zero for none
	before  time.Time // when the last commit was made
	pending *Line     // a gap, whose time is that of the next commit
	lines   int       // that were written
	gaps    int
}

// open opens the output, and returns the position to begin with.
func (r *run) open(ctx context.Context, since time.Time) (from uint64, err error) {
	var file *os.File
	var last *Line
	switch {
	case r.flags.out == stdout:
	case r.resume:
		file, last, err = resume(r.flags.out, r.Realm)
	default:
		file, err = create(r.flags.out)
	}
	if err != nil {
		return 0, err
	}
	from = 1
	switch {
	case last != nil:
		r.before, _ = time.Parse(timeFormat, last.Time) // zero if it has none
		from, err = r.behind(ctx, last)
	case !since.IsZero():
		from, err = r.h.SeekTime(ctx, since)
	}
	if err != nil {
		if file != nil {
			err = errors.Join(err, file.Close())
		}
		return 0, err
	}
	if file == nil {
		r.out = newOutput(r.Stdout, nil)
	} else {
		r.out = newOutput(file, file)
	}
	return from, nil
}

// behind returns the position from which to read on behind the last line of a file, after it has checked that the line is
// from this log.
func (r *run) behind(ctx context.Context, last *Line) (from uint64, err error) {
	switch {
	case last.Type == typeGap && last.Next > 0:
		return last.Next, nil
	case last.Position > r.h.Last:
		return 0, fmt.Errorf("%s: its last line is about position %d, and the log of realm %s ends at %d: it is another log; write into another file",
			r.flags.out, last.Position, r.Realm, r.h.Last)
	}
	for c, err := range r.h.Log.Read(ctx, client.FromSequence(last.Position), client.ToSequence(last.Position)) {
		if errors.Is(err, client.ErrExpired) {
			break
		}
		if err != nil {
			return 0, err
		}
		lines := linesOf(r.Realm, c.Sequence, c.Commit, r.resource)
		if last.Line > len(lines) || !lines[last.Line-1].same(last) {
			return 0, fmt.Errorf("%s: the log of realm %s has something else at position %d than its last line: it is another log; write into another file", r.flags.out, r.Realm, last.Position)
		}
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if last.Line >= last.Lines { // the file has all of the commit
		return last.Position + 1, nil
	}
	r.after = *last
	return last.Position, nil
}

// resource returns the resource of a kind: of one that is registered, or was when the log was written.
func (r *run) resource(apiVersion, kind string) string {
	if _, ok := r.Kinds.Of(apiVersion, kind); ok {
		return r.Kinds.ResourceName(apiVersion, kind)
	}
	return r.names.Resource(apiVersion, kind)
}

// errEnd ends a read at the first commit that is not before --until.
var errEnd = errors.New("the period has ended")

// write writes lines from a position on.
func (r *run) write(ctx context.Context, from uint64) error {
	of := client.LogOptions{FromSequence: from, Follow: r.follow, Skipped: true, Complete: true}
	if !r.follow {
		if of.ToSequence = r.h.Last; from > of.ToSequence {
			return nil
		}
	}
	err := history.ReadOn(ctx, r.h.Log, of, func(c client.LogCommit) error { return r.visit(ctx, c) }, func(g history.Gap) error {
		r.pending = &Line{Type: typeGap, Realm: r.Realm, Position: g.From, Line: 1, Lines: 1, Result: resultMissing, Detail: g.Why.Error(), Next: g.Next}
		return nil
	})
	if err == nil || errors.Is(err, errEnd) {
		err = r.gap(time.Time{}) // behind which nothing was read
	}
	return err
}

// visit writes the lines of a commit or of a skipped message.
func (r *run) visit(ctx context.Context, c client.LogCommit) error {
	if c.Commit == nil {
		if err := r.gap(time.Time{}); err != nil {
			return err
		}
		r.gaps++
		return r.lineOut(&Line{
			Type: typeGap, Time: timeText(r.before), Realm: r.Realm, Position: c.Sequence, Line: 1, Lines: 1, Result: resultSkipped, Detail: c.Skipped, Next: c.Sequence + 1,
		})
	}
	at := time.UnixMicro(c.GetTime())
	if err := r.gap(at); err != nil {
		return err
	}
	if !r.until.IsZero() && !at.Before(r.until) {
		return errEnd
	}
	r.before = at
	r.names.Learn(c.Commit)
	lines := linesOf(r.Realm, c.Sequence, c.Commit, r.resource)
	if c.Sequence == r.after.Position {
		lines = lines[min(r.after.Line, len(lines)):]
	}
	var out []byte
	for i := range lines {
		l := &lines[i]
		if err := l.cause(ctx, &r.origins); err != nil { // also of lines that are not written: later ones may have their cause
			return err
		}
		if len(r.actors) > 0 && !slices.Contains(r.actors, l.Actor) || r.namespace != "" && l.Namespace != r.namespace {
			continue
		}
		data, err := l.encode()
		if err != nil {
			return err
		}
		out = append(out, data...)
		r.lines++
	}
	return r.out.write(out)
}

// gap writes the gap before a commit of a time.
func (r *run) gap(at time.Time) error {
	l := r.pending
	if l == nil {
		return nil
	}
	r.pending, l.Time = nil, timeText(at)
	r.gaps++
	return r.lineOut(l)
}

func (r *run) lineOut(l *Line) error {
	data, err := l.encode()
	if err != nil {
		return err
	}
	r.lines++
	return r.out.write(data)
}

// report says what was written, and that something is missing.
func (r *run) report() error {
	if r.flags.out == stdout {
		if r.gaps == 0 {
			return nil
		}
		_, err := fmt.Fprintf(r.Stderr, "%s: lines of type gap\n", terminal.Count(r.gaps, "gap"))
		return err
	}
	_, err := fmt.Fprintf(r.Stdout, "%s: %s more, of which %d say that something is missing\n", r.flags.out, terminal.Count(r.lines, "line"), r.gaps)
	return err
}
