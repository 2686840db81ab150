package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
)

// completion is how a shell asks what could stand at the end of a line.
type completion = func(c *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective)

// Limits of what a shell waits for, and of what it is offered.
const (
	completionTime = 2 * time.Second
	completionMax  = 500
)

// completeTargets completes TYPE, NAME and TYPE/NAME; w says where names are
// looked for.
func (a *app) completeTargets(w *where) completion {
	return a.completing(func(ctx context.Context, s *session, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if kind, prefix, ok := strings.Cut(word, "/"); ok {
			k, err := s.Kinds.Find(kind)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			names := s.names(ctx, k, w, prefix)
			for i := range names {
				names[i] = kind + "/" + names[i]
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		}
		if len(args) == 0 {
			return s.words(word), cobra.ShellCompDirectiveNoFileComp
		}
		k, err := s.Kinds.Find(args[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := s.names(ctx, k, w, word)
		return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(args[1:], n) }), cobra.ShellCompDirectiveNoFileComp
	})
}

// completeNamespaces completes -n by the objects of kind Namespace.
func (a *app) completeNamespaces() completion {
	return a.completing(func(ctx context.Context, s *session, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		k, err := s.Kinds.Find("namespaces")
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return s.names(ctx, k, &where{}, word), cobra.ShellCompDirectiveNoFileComp
	})
}

// completeFlag completes a flag by fixed words.
func completeFlag(c *cobra.Command, flag string, words ...string) {
	// It fails for a flag that is not there only.
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// completeEverywhere completes what is the same in all commands.
func (a *app) completeEverywhere(c *cobra.Command) {
	if c.Flags().Lookup("namespace") != nil {
		_ = c.RegisterFlagCompletionFunc("namespace", a.completeNamespaces())
	}
	if c.Flags().Lookup("dry-run") != nil {
		completeFlag(c, "dry-run", "server", "client", "none")
	}
	for _, sub := range c.Commands() {
		a.completeEverywhere(sub)
	}
}

// completing has a short session to complete with. Without a server there is
// nothing to offer, and nothing to say.
func (a *app) completing(offer func(ctx context.Context, s *session, args []string, word string) ([]string, cobra.ShellCompDirective)) completion {
	return func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		ctx, stop := context.WithTimeout(c.Context(), completionTime)
		defer stop()
		a.dial.Timeout = min(a.dial.Timeout, completionTime)
		s, err := a.open(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer func() { _ = s.close() }()
		return offer(ctx, s, args, word)
	}
}

// words are the resources that begin with a prefix.
func (s *session) words(prefix string) []string {
	var list []string
	for _, k := range s.Kinds.All() {
		if r := client.ResourceOf(k).String(); strings.HasPrefix(r, prefix) {
			list = append(list, r)
		}
	}
	return list
}

func (s *session) names(ctx context.Context, k client.Kind, w *where, prefix string) []string {
	var list []string
	for o, err := range s.objects(k, w.of(k)).List(ctx, client.Limit(completionMax)) {
		if err != nil || len(list) == completionMax {
			break
		}
		if name := o.GetMetadata().GetName(); strings.HasPrefix(name, prefix) && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}
