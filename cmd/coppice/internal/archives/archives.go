package archives

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/stores"
	"github.com/coppice-gc/coppice/services/graph/snapshot"
)

// Command returns the command `coppice archive` with its sub-commands.
func Command(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:     "archive",
		GroupID: "operate",
		Short:   "List, verify, copy or prune archives of logs",
		Long: `List, verify, copy or prune an archive: segments of realms' logs and snapshots of their states, in
a directory, a NATS object store, or a bucket of S3:

  file:///dir
  nats://bucket
  s3://bucket/prefix?endpoint=https://host:port&region=name

Credentials of S3 are in AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN.
An archive has the contents of deleted objects, secrets among them.`,
		Args: cli.UnknownCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	for _, sub := range []*cobra.Command{
		{
			Use:   "ls URL",
			Short: "List the entries of an archive",
			Args:  cobra.ExactArgs(1),
			RunE: withArchives(a, func(ctx context.Context, o *opened, args []string) error {
				return o.list(ctx, args[0])
			}),
		},
		{
			Use:   "verify URL",
			Short: "Read all entries of an archive, and check them",
			Long: `Read all segments and snapshots of an archive. Check every checksum, that the commits
continue each other, that no commit is missing between two segments, and that records of
verification are those of their snapshots. It exits with 1 if something is wrong, or if the
archive is empty. Nothing is changed. Authentication codes are not checked, because only graph services have the keys.`,
			Args: cobra.ExactArgs(1),
			RunE: withArchives(a, func(ctx context.Context, o *opened, args []string) error {
				return o.verify(ctx, args[0])
			}),
		},
		{
			Use:   "copy SRC DST",
			Short: "Copy the entries of an archive that another does not have",
			Long: `Copy the entries of SRC that DST does not have, and verify each segment and snapshot while it
is copied: a damaged one is left out, reported, and makes the command exit with 1. Entries
are never replaced. After a failure the same command continues. A directory or object store
is created if there is none; a bucket of S3 must exist.`,
			Args: cobra.ExactArgs(2),
			RunE: withArchives(a, func(ctx context.Context, o *opened, args []string) error {
				return o.copy(ctx, args[0], args[1])
			}),
		},
		pruneCommand(a),
	} {
		a.Dial.Flags(sub.Flags())
		c.AddCommand(sub)
	}
	return c
}

// opened are the archives that a command has opened, with the connection to NATS of those
// in object stores.
type opened struct {
	*cli.App
	nc *nats.Conn // nil until it is needed
}

// withArchives returns the RunE of a command on archives.
func withArchives(a *cli.App, do func(ctx context.Context, o *opened, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		o := &opened{App: a}
		err := do(c.Context(), o, args)
		if o.nc != nil {
			o.nc.Close()
		}
		return cli.WithCommand(c, err)
	}
}

func (o *opened) opener() stores.Opener {
	return stores.Opener{JetStream: func(ctx context.Context) (jetstream.JetStream, error) {
		if o.nc == nil {
			_, nc, err := o.NewClient(ctx)
			if err != nil {
				return nil, err
			}
			nc.SetErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}) // requests return the reason
			o.nc = nc
		}
		return jetstream.New(o.nc)
	}}
}

// open opens the archive at a URL, and returns its entries.
func (o *opened) open(ctx context.Context, url string) (s archive.Store, entries []archive.Entry, err error) {
	l, err := archive.ParseLocation(url)
	if err != nil {
		return nil, nil, cli.UsageErrorf("%w", err)
	}
	if s, err = o.opener().Open(ctx, l); err != nil {
		return nil, nil, err
	}
	for e, err := range s.List(ctx, "") {
		if err != nil {
			return nil, nil, err
		}
		entries = append(entries, e)
	}
	return s, entries, nil
}

func (o *opened) list(ctx context.Context, url string) error {
	_, entries, err := o.open(ctx, url)
	if err != nil {
		return err
	}
	t := terminal.Table{W: o.Stdout}
	if err := t.Text("REALM ID", "KIND", "FIRST", "LAST", "SIZE", "NAME"); err != nil {
		return err
	}
	for _, e := range entries {
		row := []string{"-", "unknown", "-", "-", terminal.Bytes(e.Size), e.Name}
		if archive.IsBackup(e.Name) {
			row[1] = "backup"
		}
		if n, ok := archive.ParseName(e.Name); ok {
			row[0], row[1] = fmt.Sprintf("%x", n.Realm), string(n.Kind)
			row[2], row[3] = strconv.FormatUint(n.First, 10), strconv.FormatUint(n.Last, 10)
		}
		if err := t.Text(row...); err != nil {
			return err
		}
	}
	return t.Flush()
}

// bar returns a progress bar for entries, on a terminal.
func (o *opened) bar(label string, entries []archive.Entry) *terminal.Bar {
	b := o.Bar(label, "")
	for _, e := range entries {
		b.Total += e.Size
	}
	return b
}

func (o *opened) verify(ctx context.Context, url string) error {
	s, entries, err := o.open(ctx, url)
	if err != nil {
		return err
	}
	bar := o.bar("verifying", entries)
	reports, err := archive.Verify(ctx, s, entries, snapshot.CheckEntry, bar.Add)
	bar.Clear()
	if err != nil {
		for _, r := range reports {
			o.problems(r.Problems)
		}
		return err
	}
	var problems []archive.Problem
	for _, r := range reports {
		what := "it has no commit that can be read"
		switch {
		case r.Segments == 0:
			what = "it has no segment yet"
		case r.First > 0:
			what = fmt.Sprintf("commits %d to %d, up to revision %d", r.First, r.Last.Sequence, r.Last.Revision)
		}
		entries := terminal.Count(r.Segments, "segment")
		if r.Snapshots > 0 {
			entries += fmt.Sprintf(", %s (%d verified)", terminal.Count(r.Snapshots, "snapshot"), r.Verified)
		}
		if _, err := fmt.Fprintf(o.Stdout, "realm id %x: %s, %s, %s: %s\n", r.Realm,
			entries, terminal.Bytes(r.Size), what, terminal.Count(len(r.Problems), "problem")); err != nil {
			return err
		}
		o.problems(r.Problems)
		problems = append(problems, r.Problems...)
	}
	switch {
	case len(problems) > 0:
		return fmt.Errorf("archive %s: %s; %s", s, terminal.Count(len(problems), "problem"), remedies(problems,
			"delete a damaged segment, and copy it from another archive with coppice archive copy; without a copy delete it while the log has its commits, and the graph service archives them again",
			"delete a damaged snapshot together with its record, and copy both from another archive, or wait for a later verified snapshot before you delete them"))
	case len(reports) == 0:
		return fmt.Errorf("archive %s has no segments and no snapshots: a graph service with this archive stores the first commits of a realm within 10 minutes; otherwise look at the URL", s)
	}
	return nil
}

// problems prints problems of an archive.
func (o *opened) problems(problems []archive.Problem) {
	for _, p := range problems {
		_, _ = fmt.Fprintf(o.Stderr, "coppice: %s: %v\n", p.Name, p.Err)
	}
}

// remedies says what to do about problems of an archive: about a damaged segment, a damaged snapshot or record, and others.
func remedies(problems []archive.Problem, segment, snapshot string) string {
	has := map[archive.ProblemKind]bool{}
	var segments, others bool
	for _, p := range problems {
		has[p.Kind] = true
		if p.Kind == archive.ProblemDamaged {
			n, _ := archive.ParseName(p.Name)
			segments, others = segments || n.Kind == archive.Segment, others || n.Kind != archive.Segment
		}
	}
	var texts []string
	for _, r := range []struct {
		of   bool
		text string
	}{
		{segments, segment},
		{others, snapshot},
		// An entry that cannot be used leaves a gap too.
		{
			has[archive.ProblemMissing] && len(has) == 1,
			"copy the missing segments from another archive with coppice archive copy; while the log has their commits, the graph service archives them again by itself",
		},
		{has[archive.ProblemUnread], "an entry that cannot be read may be undamaged: do not delete it, and repeat the command"},
		{has[archive.ProblemGone], "entries were deleted or added meanwhile: repeat the command"},
		{has[archive.ProblemVersion], "what is of another version needs that version of Coppice"},
		{has[archive.ProblemConflict], "where two archives have different entries, verify both"},
	} {
		if r.of {
			texts = append(texts, r.text)
		}
	}
	return strings.Join(texts, "; ")
}

func (o *opened) copy(ctx context.Context, from, to string) error {
	l, err := archive.ParseLocation(to)
	if err != nil {
		return cli.UsageErrorf("%w", err)
	}
	src, entries, err := o.open(ctx, from)
	if err != nil {
		return err
	}
	if src.String() == l.String() {
		return cli.UsageErrorf("%s cannot be copied to itself", src)
	}
	if !slices.ContainsFunc(entries, func(e archive.Entry) bool { return archive.IsOfRealm(e.Name) }) {
		return fmt.Errorf("archive %s has no entries of a realm: nothing is copied", src)
	}
	dst, err := o.opener().Create(ctx, l)
	if err != nil {
		return err
	}
	bar := o.bar("copying", entries)
	done, err := archive.Copy(ctx, dst, src, entries, snapshot.CheckEntry, bar.Add)
	bar.Clear()
	o.problems(done.Problems)
	if err != nil {
		return fmt.Errorf("%w; %s copied; repeat the command to continue, when both archives work", err, terminal.Count(done.Copied, "entry"))
	}
	others := ""
	if done.Others > 0 {
		others = fmt.Sprintf("; %s not copied, because no entry of a realm has such a name", terminal.Count(done.Others, "file"))
	}
	if _, err := fmt.Fprintf(o.Stdout, "%s copied, %s; %d were there already%s\n", terminal.Count(done.Copied, "entry"), terminal.Bytes(done.Bytes), done.Present, others); err != nil {
		return err
	}
	if n := len(done.Problems); n > 0 {
		return fmt.Errorf("%s of archive %s not copied, so the copy is incomplete; %s", terminal.Count(n, "entry"), src,
			remedies(done.Problems, "replace a damaged segment there by one of another archive, and repeat the command",
				"a damaged snapshot, or record of one, is not needed if a later one was copied"))
	}
	return nil
}
