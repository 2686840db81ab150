package deletion

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client/restore"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/tree"
)

type restoreFlags struct {
	restore.Options
	cascadeOf uint64 // the revision of a deletion
	dryRun    bool
	all       bool
	expires   string
}

// expiry reads --expires.
func (f *restoreFlags) expiry(now time.Time) (*time.Time, error) {
	switch f.expires {
	case "":
		return nil, nil //nolint:nilnil // it is not said
	case "never":
		return &time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, f.expires)
	if d, failed := time.ParseDuration(f.expires); failed == nil {
		at, err = now.Add(d), nil
	}
	if err != nil || !at.After(now) {
		return nil, cli.UsageErrorf("--expires=%s is no time to come: write a time such as 2026-11-25T14:00:00Z, a duration such as 24h, or never", f.expires)
	}
	return &at, nil
}

// RestoreCommand returns the command `coppice restore`.
func RestoreCommand(a *cli.App) *cobra.Command {
	var f restoreFlags
	c := &cobra.Command{
		Use:     "restore --cascade-of REVISION | UID...",
		GroupID: "objects",
		Short:   "Create objects again that were deleted",
		Long: `Create the objects again that a deletion and its cascade have removed, as they were
before it. REVISION is that of the deletion, which 'coppice events' shows. With UIDs,
only the objects that had these uids are created.

The objects get new uids, and references between them name these. Objects that
survived the cascade get back the references that it removed. If an object cannot be
restored as it was, the command names it and changes nothing. If a restoration fails
before it is complete, run the same command again: it continues.

Status is not restored, unless --with-status is set. Restored finalizers run again at the next
deletion, so their controllers must first create again what they have cleaned up.

The user needs permission for the verbs restore, readlog and readpast, which operators
have.`,
		Example: `  coppice restore --cascade-of 81 --dry-run
  coppice restore --cascade-of 81
  coppice restore 0197c3a1-7d4e-7c11-9a30-5a1d6f0b2c44 --with-owners`,
		RunE: a.InSession(func(ctx context.Context, s *cli.Session, args []string) error {
			return restoreObjects(ctx, s, args, f)
		}),
	}
	c.Flags().Uint64Var(&f.cascadeOf, "cascade-of", 0, "the revision of the deletion whose cascade is undone")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "show what would be restored, and change nothing")
	c.Flags().BoolVar(&f.WithOwners, "with-owners", false, "restore owners and used objects that are gone, too")
	c.Flags().BoolVar(&f.DropDangling, "drop-dangling", false, "drop references to owners and used objects that are gone")
	c.Flags().BoolVar(&f.SkipExisting, "skip-existing", false, "leave out objects whose name is taken")
	c.Flags().BoolVar(&f.WithStatus, "with-status", false, "restore the status, too")
	c.Flags().StringVar(&f.expires, "expires", "", "the new expiresAt of objects whose own has passed: RFC 3339, a duration from now such as 24h, or never")
	c.Flags().BoolVar(&f.all, "all", false, "show each object")
	a.ClientFlags(c)
	return c
}

// maxRefusals is the number of refusals that are shown.
const maxRefusals = 20

func restoreObjects(ctx context.Context, s *cli.Session, uids []string, f restoreFlags) error {
	if (f.cascadeOf == 0) == (len(uids) == 0) {
		return cli.UsageErrorf("name the deletion with --cascade-of REVISION, or the objects by their uids")
	}
	var err error
	if f.Expires, err = f.expiry(s.Clock()); err != nil {
		return err
	}
	reading := s.Bar("reading the log", "commit")
	before := uint64(0)
	p, err := restore.Prepare(ctx, s.Client, restore.Request{CascadeOf: f.cascadeOf, UIDs: uids, Options: f.Options, OnProgress: func(done, total uint64) {
		reading.Total = int64(total)
		reading.Add(int64(done - min(before, done)))
		before = done
	}})
	reading.Clear()
	if err != nil {
		return err
	}
	if len(p.Refusals) > 0 {
		for i, n := range p.Refusals {
			if i == maxRefusals && !f.all {
				_, _ = fmt.Fprintf(s.Stderr, "coppice: and %d more; --all shows them\n", len(p.Refusals)-i)
				break
			}
			_, _ = fmt.Fprintf(s.Stderr, "coppice: %s\n", terminal.Printable(n.String()))
		}
		return fmt.Errorf("nothing is restored: %s", terminal.Count(len(p.Refusals), "refusal"))
	}
	if f.dryRun {
		for _, t := range tree.Restoration(p, f.all) {
			if err := t.Write(s.Stdout, s.Ink()); err != nil {
				return err
			}
		}
		if p.Count() > 0 {
			_, _ = fmt.Fprintln(s.Stdout)
		}
	}
	for _, n := range p.Notes {
		_, _ = fmt.Fprintf(s.Stderr, "%s %s\n", s.Ink().Yellow("note:"), terminal.Printable(n.String()))
	}
	if f.dryRun {
		_, err := fmt.Fprintf(s.Stdout, "%s (dry run)\n", restoredText(p))
		return err
	}
	bar := s.Bar("restoring", "object")
	bar.Total = int64(p.Count())
	shown := 0
	err = p.Run(ctx, func(n int) {
		bar.Add(int64(n - shown))
		shown = n
	})
	bar.Clear()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.Stdout, restoredText(p))
	return err
}

// restoredText counts what a plan does.
func restoredText(p *restore.Plan) string {
	parts := []string{terminal.Count(len(p.Objects), "object") + " restored"}
	if n := len(p.Survivors); n > 0 {
		parts = append(parts, fmt.Sprintf("references given back to %s", terminal.Count(n, "object")))
	}
	if n := len(p.Notes); n > 0 {
		parts = append(parts, terminal.Count(n, "note"))
	}
	return strings.Join(parts, ", ")
}
