package archives

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/snapshot"
)

// pruneFlags are the flags of `coppice archive prune`.
type pruneFlags struct {
	retention, id string
	dryRun        bool
}

func pruneCommand(a *cli.App) *cobra.Command {
	var f pruneFlags
	c := &cobra.Command{
		Use:   "prune URL --retention SIZE,AGE",
		Short: "Delete the oldest entries of an archive beyond a size or an age",
		Long: `Delete the oldest entries of each realm in an archive, until the rest is within the size
and age of --retention. The two newest verified snapshots of a realm and all segments
behind the older one are always kept; both are read and checked before anything is deleted.
Without one nothing is deleted. Do not prune while the warning LogDamaged says that the log
lacks commits: only the archive may have them.

A graph service does the same by itself, by the realm setting archiveRetention. What was
deleted cannot be read any more: 'coppice events' and 'coppice realm restore' begin later.`,
		Example: `  coppice archive prune file:///backup/archive --retention 10GiB,365d --dry-run
  coppice archive prune s3://backup/coppice --retention 365d --id 0192f0c1a2b37c4d8e5f60718293a4b5`,
		Args: cobra.ExactArgs(1),
		RunE: withArchives(a, func(ctx context.Context, o *opened, args []string) error {
			return o.prune(ctx, args[0], f)
		}),
	}
	c.Flags().StringVar(&f.retention, "retention", "", "how much to keep of each realm: a size such as 10GiB, an age such as 365d, or both with a comma between them; required")
	c.Flags().StringVar(&f.id, "id", "", "only the realm with this id")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "print what would be deleted, and delete nothing")
	return c
}

func (o *opened) prune(ctx context.Context, url string, f pruneFlags) error {
	if f.retention == "" {
		return cli.UsageErrorf("--retention is required: a size such as 10GiB, an age such as 365d, or both with a comma between them")
	}
	r, err := lifecycle.ParseRetention(f.retention)
	if err != nil {
		return cli.UsageErrorf("--retention %s: %w", f.retention, err)
	}
	store, entries, err := o.open(ctx, url)
	if err != nil {
		return err
	}
	var realms [][16]byte
	for _, e := range entries {
		if n, ok := archive.ParseName(e.Name); ok && !slices.Contains(realms, n.Realm) && (f.id == "" || f.id == fmt.Sprintf("%x", n.Realm)) {
			realms = append(realms, n.Realm)
		}
	}
	if len(realms) == 0 {
		if f.id != "" {
			return fmt.Errorf("archive %s has no realm with the id %s", store, f.id)
		}
		_, err := fmt.Fprintf(o.Stdout, "archive %s has no realm\n", store)
		return err
	}
	for _, realm := range realms {
		if err := o.pruneRealm(ctx, store, realm, r, f.dryRun); err != nil {
			return err
		}
	}
	return nil
}

func (o *opened) pruneRealm(ctx context.Context, store archive.Store, realm [16]byte, r lifecycle.Retention, dryRun bool) error {
	now := o.Clock()
	skipped := func(name string, err error) {
		_, _ = fmt.Fprintf(o.Stderr, "coppice: %s cannot be used, and is passed over: %v\n", name, err)
	}
	p, err := archive.PlanPrune(ctx, store, realm, archive.PruneRule{Retention: r, Now: now, Check: snapshot.CheckEntry, Skipped: skipped})
	if err != nil {
		return err
	}
	done := "deleted"
	if dryRun {
		done = "would be deleted"
		for _, e := range p.Delete {
			if _, err := fmt.Fprintf(o.Stdout, "%s: %s would be deleted\n", e.Name, terminal.Bytes(e.Size)); err != nil {
				return err
			}
		}
	} else {
		bar := o.bar("pruning", p.Delete)
		deleted := 0
		err := p.Do(ctx, store, now, func(e archive.Entry) error {
			deleted++
			bar.Add(e.Size)
			return nil
		})
		bar.Clear()
		if err != nil {
			return fmt.Errorf("%w; %s deleted, repeat the command to continue", err, terminal.Count(deleted, "entry"))
		}
	}
	_, err = fmt.Fprintf(o.Stdout, "realm id %x: %s %s, %s; %d kept, %s: %s\n", realm, terminal.Count(len(p.Delete), "entry"), done, terminal.Bytes(p.DeleteBytes),
		p.Kept, terminal.Bytes(p.KeptBytes), keptBecause(p))
	return err
}

// keptBecause says why entries are kept.
func keptBecause(p archive.Pruning) string {
	switch {
	case p.Snapshot == 0:
		return "no verified snapshot can be used, so nothing is deleted"
	case p.Needed:
		return fmt.Sprintf("more than the retention of %s, because the two newest verified snapshots and the segments behind commit %d are always kept", p.Retention, p.Snapshot)
	}
	return fmt.Sprintf("within the retention of %s", p.Retention)
}
