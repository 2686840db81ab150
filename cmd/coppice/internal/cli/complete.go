package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coppice-gc/coppice/client"
)

// completionTime is the maximum time for a completion.
const completionTime = 2 * time.Second

// CompletionMax is the maximum number of words of a completion.
const CompletionMax = 500

// CompleteTargets completes TYPE, NAME and TYPE/NAME; w says where names are
// looked for.
func (a *App) CompleteTargets(w *Where) cobra.CompletionFunc {
	return a.CompleteInSession(func(ctx context.Context, s *Session, args []string, word string) ([]string, cobra.ShellCompDirective) {
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
func (a *App) completeNamespaces() cobra.CompletionFunc {
	return a.CompleteInSession(func(ctx context.Context, s *Session, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		k, err := s.Kinds.Find("namespaces")
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return s.names(ctx, k, &Where{}, word), cobra.ShellCompDirectiveNoFileComp
	})
}

// CompleteRealms completes the name of a realm, as the first argument or the value of a flag.
func (a *App) CompleteRealms() cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		ctx, stop := context.WithTimeout(c.Context(), completionTime)
		defer stop()
		s, err := a.Connect(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer s.Conn.Close()
		return s.realmNames(ctx, word), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteFirst completes the first argument only.
func (a *App) CompleteFirst(of cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return of(c, args, word)
	}
}

// realmNames are the names of realms that begin with a prefix. There are none if the user may not
// list them.
func (s *Session) realmNames(ctx context.Context, prefix string) []string {
	realms, err := s.Client.Operations().ListRealms(ctx)
	if err != nil {
		return nil
	}
	var list []string
	for _, r := range realms {
		if strings.HasPrefix(r.GetName(), prefix) && len(list) < CompletionMax {
			list = append(list, r.GetName())
		}
	}
	return list
}

// completionWords is the annotation of a flag that holds the words which complete it.
const completionWords = "coppice_completion_words"

// CompleteFlag completes a flag by fixed words.
func CompleteFlag(c *cobra.Command, flag string, words ...string) {
	// The only possible error is that the command does not have the flag.
	_ = c.Flags().SetAnnotation(flag, completionWords, words)
}

// CompleteFlags registers the completions of the flags of a command and its sub-commands: those of CompleteFlag, and
// of flags that mean the same in all commands. It is for a process that answers a shell and ends: cobra keeps a
// registered flag in a global map, and with it the whole command, for ever.
func (a *App) CompleteFlags(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		var complete cobra.CompletionFunc
		switch words := f.Annotations[completionWords]; {
		case words != nil:
			complete = fixed(words...)
		case f.Name == "namespace":
			complete = a.completeNamespaces()
		case f.Name == "realm":
			complete = a.CompleteRealms()
		case f.Name == "dry-run" && f.Value.Type() != "bool":
			complete = fixed("server", "client", "none")
		default:
			return
		}
		_ = c.RegisterFlagCompletionFunc(f.Name, complete) // it fails for a flag that is shared, and known already
	})
	for _, sub := range c.Commands() {
		a.CompleteFlags(sub)
	}
}

// fixed completes by fixed words.
func fixed(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

// CompleteInSession opens a session for a completion. Without a server the completion is empty, and
// prints no error.
func (a *App) CompleteInSession(offer func(ctx context.Context, s *Session, args []string, word string) ([]string, cobra.ShellCompDirective)) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		ctx, stop := context.WithTimeout(c.Context(), completionTime)
		defer stop()
		s, err := a.open(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer func() { _ = s.close() }()
		return offer(ctx, s, args, word)
	}
}

// words are the resources that begin with a prefix.
func (s *Session) words(prefix string) []string {
	var list []string
	for _, k := range s.Kinds.All() {
		if r := client.ResourceOf(k).String(); strings.HasPrefix(r, prefix) {
			list = append(list, r)
		}
	}
	return list
}

func (s *Session) names(ctx context.Context, k client.Kind, w *Where, prefix string) []string {
	var list []string
	for o, err := range s.Objects(k, w.NamespaceOf(k)).List(ctx, client.Limit(CompletionMax)) {
		if err != nil || len(list) == CompletionMax {
			break
		}
		if name := o.GetMetadata().GetName(); strings.HasPrefix(name, prefix) && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}
