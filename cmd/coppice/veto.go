package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

type vetoFlags struct {
	modifyFlags
	reason   string
	duration time.Duration
}

func (a *app) vetoCommand() *cobra.Command {
	var f vetoFlags
	c := &cobra.Command{
		Use:   "veto TYPE NAME... | TYPE/NAME... --for DURATION --reason REASON",
		Short: "Postpone the deletion of objects of which an expiry policy has given notice",
		Long: `Postpone the deletion of objects of which an expiry policy has given notice. The reason
is shown by 'coppice describe', and recorded in the log. A later veto replaces it.

The user needs permission for the verb veto, which operators have.`,
		Example:           `  coppice policy veto ns/preview-7 --for 24h --reason "the demo is tomorrow"`,
		ValidArgsFunction: a.completeTargets(&f.where),
		RunE: a.in(func(ctx context.Context, s *session, args []string) error {
			if f.duration == 0 {
				return wrong("--for is required: for how long the deletion is postponed, such as 24h")
			}
			until := s.now().Add(f.duration)
			return s.answer(ctx, args, f, "kept until "+console.Clock(until, s.now()), func(objects client.ResourceClient, m *coppicev1.ObjectMeta) error {
				return objects.Veto(ctx, m.GetName(), until, f.reason, client.IfUID(m.GetUid()))
			})
		}),
	}
	f.where.flags(c, true)
	c.Flags().StringVarP(&f.selector, "selector", "l", "", "label selector")
	c.Flags().DurationVar(&f.duration, "for", 0, "for how long the deletion is postponed, from now on (required)")
	c.Flags().StringVar(&f.reason, "reason", "", "why (required)")
	a.clientFlags(c)
	return c
}

func (a *app) agreeCommand() *cobra.Command {
	var f vetoFlags
	c := &cobra.Command{
		Use:   "agree TYPE NAME... | TYPE/NAME... --reason REASON",
		Short: "Agree to the deletion of objects of which an expiry policy has given notice",
		Long: `Agree to the deletion of objects of which an expiry policy has given notice. The objects are
deleted when the notice ends. This ends a veto; a policy with onSilence: keep deletes only
objects to whose deletion someone agrees.

The user needs permission for the verb veto, which operators have.`,
		Example:           `  coppice policy agree ns/preview-7 --reason "merged"`,
		ValidArgsFunction: a.completeTargets(&f.where),
		RunE: a.in(func(ctx context.Context, s *session, args []string) error {
			return s.answer(ctx, args, f, "deleted when the notice ends", func(objects client.ResourceClient, m *coppicev1.ObjectMeta) error {
				return objects.Agree(ctx, m.GetName(), f.reason, client.IfUID(m.GetUid()))
			})
		}),
	}
	f.where.flags(c, true)
	c.Flags().StringVarP(&f.selector, "selector", "l", "", "label selector")
	c.Flags().StringVar(&f.reason, "reason", "", "why (required)")
	a.clientFlags(c)
	return c
}

// answer answers the notices of objects.
func (s *session) answer(ctx context.Context, args []string, f vetoFlags, said string, by func(client.ResourceClient, *coppicev1.ObjectMeta) error) error {
	if f.reason == "" {
		return wrong("--reason is required: the log records why")
	}
	return s.modify(ctx, args, f.modifyFlags, said, func(_ context.Context, k client.Kind, o *coppicev1.Object, _ dryMode) (modified, error) {
		return modified{word: said}, by(s.objects(k, o.GetMetadata().GetNamespace()), o.GetMetadata())
	})
}
