package operate

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

type vetoFlags struct {
	cli.ModifyFlags
	reason   string
	duration time.Duration
}

func vetoCommand(a *cli.App) *cobra.Command {
	var f vetoFlags
	c := &cobra.Command{
		Use:   "veto TYPE NAME... | TYPE/NAME... --for DURATION --reason REASON",
		Short: "Postpone the deletion of objects of which an expiry policy has given notice",
		Long: `Postpone the deletion of objects of which an expiry policy has given notice. The reason
is shown by 'coppice describe', and recorded in the log. A later veto replaces it.

The user needs permission for the verb veto, which operators have.`,
		Example:           `  coppice policy veto ns/preview-7 --for 24h --reason "the demo is tomorrow"`,
		ValidArgsFunction: a.CompleteTargets(&f.Where),
		RunE: a.InSession(func(ctx context.Context, s *cli.Session, args []string) error {
			if f.duration == 0 {
				return cli.UsageErrorf("--for is required: for how long the deletion is postponed, such as 24h")
			}
			until := s.Clock().Add(f.duration)
			return answerNotices(ctx, s, args, f, "kept until "+terminal.Clock(until, s.Clock()), func(objects client.ResourceClient, m *coppicev1.ObjectMeta) error {
				return objects.Veto(ctx, m.GetName(), until, f.reason, client.IfUID(m.GetUid()))
			})
		}),
	}
	f.Where.Flags(c, true)
	c.Flags().StringVarP(&f.Selector, "selector", "l", "", "label selector")
	c.Flags().DurationVar(&f.duration, "for", 0, "for how long the deletion is postponed, from now on (required)")
	c.Flags().StringVar(&f.reason, "reason", "", "why (required)")
	a.ClientFlags(c)
	return c
}

func agreeCommand(a *cli.App) *cobra.Command {
	var f vetoFlags
	c := &cobra.Command{
		Use:   "agree TYPE NAME... | TYPE/NAME... --reason REASON",
		Short: "Agree to the deletion of objects of which an expiry policy has given notice",
		Long: `Agree to the deletion of objects of which an expiry policy has given notice. The objects are
deleted when the notice ends. This ends a veto; a policy with onSilence: keep deletes only
objects to whose deletion someone agrees.

The user needs permission for the verb veto, which operators have.`,
		Example:           `  coppice policy agree ns/preview-7 --reason "merged"`,
		ValidArgsFunction: a.CompleteTargets(&f.Where),
		RunE: a.InSession(func(ctx context.Context, s *cli.Session, args []string) error {
			return answerNotices(ctx, s, args, f, "deleted when the notice ends", func(objects client.ResourceClient, m *coppicev1.ObjectMeta) error {
				return objects.Agree(ctx, m.GetName(), f.reason, client.IfUID(m.GetUid()))
			})
		}),
	}
	f.Where.Flags(c, true)
	c.Flags().StringVarP(&f.Selector, "selector", "l", "", "label selector")
	c.Flags().StringVar(&f.reason, "reason", "", "why (required)")
	a.ClientFlags(c)
	return c
}

// answerNotices answers the notices of objects.
func answerNotices(ctx context.Context, s *cli.Session, args []string, f vetoFlags, said string, by func(client.ResourceClient, *coppicev1.ObjectMeta) error) error {
	if f.reason == "" {
		return cli.UsageErrorf("--reason is required: the log records why")
	}
	return s.Modify(ctx, args, f.ModifyFlags, said, func(_ context.Context, k client.Kind, o *coppicev1.Object, _ cli.DryMode) (cli.Modified, error) {
		return cli.Modified{Word: said}, by(s.Objects(k, o.GetMetadata().GetNamespace()), o.GetMetadata())
	})
}
