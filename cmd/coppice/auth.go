package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/internal/access"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// question is what `coppice auth can-i` asks.
type question struct {
	client.Permission
	namespace, user, file string
	quiet                 bool
}

func authCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:     "auth",
		GroupID: "operate",
		Short:   "Say what users may do",
		Args:    cli.UnknownCommand,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var q question
	can := &cobra.Command{
		Use:   "can-i VERB [KIND]",
		Short: "Say whether a user may do something",
		Long: `Say whether a user may send requests with a verb about a kind. It prints yes or no, and the
exit code is 0 or 1; it is 2 if there is no answer. Without -n the question is about all namespaces, and for a kind without
namespaces about its objects.

Without --users-file it asks the NATS server and the graph service, with the present user: it sends the request,
marked as a question, which changes nothing. With --users-file it looks into that file,
and --as names the user.

VERB is a verb of the object API, such as get, list, watch, create, patch or delete, or read, write or past, which
stand for several; verbs about the realm, such as verify, need no KIND. KIND is the plural with its group, such as
deployments.apps; short names are not known here, and whether there is such a kind is not checked.`,
		Example: `  coppice auth can-i delete deployments.apps -n shop
  coppice auth can-i get secrets -n prod --as shop --users-file users.yaml`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			q.Verb, q.Resource = args[0], client.Resource{}
			if len(args) > 1 {
				q.Resource = client.ParseResource(args[1])
			}
			q.Namespace = q.namespace
			if q.user != "" && q.file == "" {
				return cli.NewUsageError(c, errors.New("--as goes with --users-file: the server answers for the present user only"))
			}
			err := q.answer(c.Context(), a)
			var refused *client.Error
			switch {
			case err == nil:
				_, err = fmt.Fprintln(a.Stdout, "yes")
				return err
			case errors.Is(err, client.ErrForbidden) && errors.As(err, &refused):
				if _, err := fmt.Fprintln(a.Stdout, "no"); err != nil {
					return err
				}
				if !q.quiet {
					a.Say(refused.Message)
				}
				return &cli.ExitError{Code: 1}
			}
			return &cli.ExitError{Code: 2, Err: cli.WithCommand(c, err)}
		},
	}
	a.ClientFlags(can)
	can.Flags().StringVarP(&q.namespace, "namespace", "n", "", "namespace; without it, all namespaces")
	can.Flags().StringVar(&q.file, "users-file", "", "answer from a users file instead of asking the server")
	can.Flags().StringVar(&q.user, "as", "", "user of the users file")
	can.Flags().StringVar(&q.Finalizer, "finalizer", "", "finalizer that removefinalizer, forcefinalizer or consumefinalizer is about, or the name of consumeexpiry")
	can.Flags().BoolVarP(&q.quiet, "quiet", "q", false, "print yes or no only")
	c.AddCommand(can)
	return c
}

// answer returns nil for yes, and an error with client.ErrForbidden for no.
func (q *question) answer(ctx context.Context, a *cli.App) error {
	if q.file != "" {
		return q.fromFile(a)
	}
	if q.Verb == access.BlockOwner {
		return fmt.Errorf("%s is no request, and only a users file has it: name the file with --users-file", q.Verb)
	}
	s, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer s.Conn.Close()
	for _, verb := range access.Stands(q.Verb) {
		p := q.Permission
		if p.Verb = verb; verb == bus.VerbReadLog { // about the realm
			p.Resource, p.Namespace = client.Resource{}, ""
		}
		if err := s.Client.Allowed(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// fromFile answers from a users file. Whether a kind has namespaces is not known: without a namespace, all are meant.
func (q *question) fromFile(a *cli.App) error {
	f, err := access.ReadFile(q.file)
	if err != nil {
		return err
	}
	user := q.user
	if user == "" {
		if len(f.Users) != 1 {
			return fmt.Errorf("%s has several users: name one with --as: %s", q.file, strings.Join(slices.Sorted(maps.Keys(f.Users)), ", "))
		}
		for user = range f.Users {
		}
	}
	rules, named := f.Table().Of(user, a.Realm)
	if !named {
		return fmt.Errorf("%s has no user %q; its users are %s", q.file, user, strings.Join(slices.Sorted(maps.Keys(f.Users)), ", "))
	}
	for _, verb := range access.Stands(q.Verb) {
		if verb != access.BlockOwner && !slices.Contains(bus.Verbs(), verb) {
			return fmt.Errorf("%q is not a verb; the verbs are %s", q.Verb, strings.Join(access.Verbs(), ", "))
		}
		at := bus.API{Realm: a.Realm, Actor: user, Verb: verb, Group: q.Resource.Group, Plural: q.Resource.Plural, Namespace: q.Namespace, Finalizer: q.Finalizer}
		if at.Plural == "" && bus.NamesType(verb) {
			return fmt.Errorf("%s is about a kind: name one, such as pods", verb)
		}
		if at.Plural != "" && lifecycle.CheckResource(at.Group, at.Plural) != nil {
			return fmt.Errorf("%q is not a kind: write the plural with the group, such as deployments.apps", lifecycle.ResourceName(at.Group, at.Plural))
		}
		if !rules.Allows(at, !access.ClusterScoped(lifecycle.ResourceName(at.Group, at.Plural))) {
			where := ""
			if at.Namespace != "" {
				where = " in namespace " + at.Namespace
			}
			return &client.Error{Reason: client.ErrForbidden, Message: strings.TrimSpace(fmt.Sprintf("no rule of %s lets %s %s %s", q.file, user, verb, lifecycle.ResourceName(at.Group, at.Plural))) + where}
		}
	}
	return nil
}
