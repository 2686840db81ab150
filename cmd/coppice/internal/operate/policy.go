package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/printing"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/expirypolicy"
	"github.com/coppice-gc/coppice/internal/manifestfile"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// PolicyCommand returns the command `coppice policy`.
func PolicyCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:     "policy",
		GroupID: "operate",
		Short:   "Test and show expiry policies, and answer their notices",
		Args:    cli.UnknownCommand,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	test := &cobra.Command{
		Use:   "test FILE",
		Short: "Show which objects would expire by a policy, and change nothing",
		Long: `Show which objects the expiry policies in a file apply to, and change nothing. The policies need
not exist in the realm.

--at reads the realm as it was, and --offline a recorded log that 'coppice replay --offline'
has replayed. The time is then that of the last commit.`,
		Example: `  coppice policy test old-previews.yaml
  coppice policy test old-previews.yaml --at 24h
  coppice replay shop.log --offline shop && coppice policy test old-previews.yaml --offline shop`,
		Args: cobra.ExactArgs(1),
		RunE: a.InSession(func(ctx context.Context, s *cli.Session, args []string) error { return testPolicies(ctx, s, args[0]) }),
	}
	a.ClientFlags(test)
	a.OfflineFlag(test)
	a.AtFlag(test)
	c.AddCommand(test, listPoliciesCommand(a), vetoCommand(a), agreeCommand(a))
	return c
}

// testPolicies evaluates the expiry policies of a file.
func testPolicies(ctx context.Context, s *cli.Session, path string) error {
	entries, err := s.ReadManifests(ctx, path)
	if err != nil {
		return err
	}
	now, err := policyTime(ctx, s)
	if err != nil {
		return err
	}
	tested := 0
	for _, e := range entries {
		switch {
		case e.Err != nil:
			return e.Err
		case e.Object.GetApiVersion() != api.APIVersion || e.Object.GetKind() != expirypolicy.Kind:
			continue
		}
		tested++
		if err := testPolicy(ctx, s, e, now); err != nil {
			return fmt.Errorf("%s: %w", e.At, err)
		}
	}
	if tested == 0 {
		return fmt.Errorf("%s has no object of kind %s (%s)", path, expirypolicy.Kind, api.APIVersion)
	}
	return nil
}

// policyTime returns the time at which policies are evaluated: now, or that of the last commit of what
// is read.
func policyTime(ctx context.Context, s *cli.Session) (time.Time, error) {
	if past := s.Client.Past(); past != nil {
		return past.Time, nil
	}
	if s.Offline == "" {
		return s.Clock(), nil
	}
	last, err := s.Client.Log().Last(ctx)
	if err != nil {
		return time.Time{}, err
	}
	commit, err := s.Client.Log().Commit(ctx, last)
	return time.UnixMicro(commit.GetTime()), err
}

// testPolicy evaluates one policy.
func testPolicy(ctx context.Context, s *cli.Session, e manifestfile.Entry, now time.Time) error {
	p, err := expirypolicy.Parse(e.Object.GetSpec())
	if err != nil {
		return err
	}
	k, ok := s.Kinds.Of(p.Group+"/", p.Kind)
	if !ok {
		return fmt.Errorf("spec.kind: the kind %s of group %q is not registered in realm %q", p.Kind, p.Group, s.Realm)
	}
	unchanged, err := unchangedSince(ctx, s, p.MinUnchanged, now)
	if err != nil {
		return err
	}
	all, due, failed := 0, 0, 0
	for o, err := range s.Client.Resource(client.ResourceOf(k), "").List(ctx, client.LabelSelector(p.Selector)) {
		if err != nil {
			return err
		}
		all++
		is, err := p.Matches(o, now)
		switch {
		case err != nil:
			failed++
			err = testedObject(s, k, o, "stays: "+err.Error())
		case !is || o.GetMetadata().GetResourceVersion() > unchanged:
		case o.GetMetadata().GetProtection() != nil:
			err = testedObject(s, k, o, "stays, protected by "+printing.ProtectedBy(o.GetMetadata().GetProtection()))
		default:
			due++
			text := "expires, " + terminal.Age(now.Sub(o.GetMetadata().GetCreationTimestamp().AsTime())) + " old"
			switch {
			case p.OnSilence == expirypolicy.SilenceKeep:
				text += fmt.Sprintf("; notice is given %s before, and it stays unless someone agrees", p.Notice)
			case p.Notice > 0:
				text += fmt.Sprintf("; notice is given %s before", p.Notice)
			}
			err = testedObject(s, k, o, text)
		}
		if err != nil {
			return err
		}
	}
	text := fmt.Sprintf("%s: %d of %s with these labels expire", e.Object.GetMetadata().GetName(), due, terminal.Count(all, "object"))
	if failed > 0 {
		text += fmt.Sprintf("; the condition has no result on %d", failed)
	}
	_, err = fmt.Fprintf(s.Stdout, "%s, at %s; nothing was changed\n", text, now.UTC().Format(time.RFC3339))
	return err
}

func testedObject(s *cli.Session, k client.Kind, o *coppicev1.Object, what string) error {
	key := printing.Key(k, o.GetMetadata().GetName())
	if ns := o.GetMetadata().GetNamespace(); ns != "" {
		key += " (" + ns + ")"
	}
	_, err := fmt.Fprintf(s.Stdout, "%s  %s\n", key, terminal.Printable(what))
	return err
}

// unchangedSince returns the newest revision of objects that were not changed for a time: the last one
// before it. It is 0 if the log does not go back so far.
func unchangedSince(ctx context.Context, s *cli.Session, d time.Duration, now time.Time) (uint64, error) {
	if d == 0 {
		return ^uint64(0), nil
	}
	then, err := s.Client.At(ctx, client.Moment{Time: now.Add(-d)})
	if errors.Is(err, client.ErrExpired) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return then.Past().Revision, nil
}
