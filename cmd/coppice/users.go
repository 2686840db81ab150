package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/internal/access"
)

// usersFlags say what users may do.
type usersFlags struct {
	name  string
	may   []string
	print bool
	file  *access.File // that of name, or of one user with the rules of may; nil for none
}

func (f *usersFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.name, "users-file", "", "file with the users and what each may do, in place of the flags that name users")
	c.Flags().StringArrayVar(&f.may, "may", nil, "what the application may do, as a rule '"+access.RuleForm+"'; may be repeated")
	c.Flags().BoolVar(&f.print, "print-users-file", false, "print the users file for graph services that --may needs, and not the configuration")
}

// notWithUsersFile are the flags of nats-config that name users, or say what they may do.
var notWithUsersFile = []string{"realm", "application", "reader", "viewer", "operator", "controller", "finalizer", "agent", "expiry", "bench", "may", "print-users-file"}

// read reads the file, or makes that of the rules of --may.
func (f *usersFlags) read(c *cobra.Command, applications []string) (err error) {
	switch {
	case f.name != "":
		var with string
		c.Flags().Visit(func(given *pflag.Flag) {
			if slices.Contains(notWithUsersFile, given.Name) {
				with = given.Name
			}
		})
		if with != "" {
			return cli.NewUsageError(c, fmt.Errorf("--%s does not go with --users-file: name the user in the file", with))
		}
		f.file, err = access.ReadFile(f.name)
		return err
	case len(f.may) > 0:
		if !c.Flags().Changed("application") || len(applications) != 1 {
			return cli.NewUsageError(c, errors.New("--may is about one application: name it with --application, or write a users file for several (--users-file)"))
		}
		var rules []access.Rule
		for _, text := range f.may {
			r, err := access.ParseRule(text)
			if err != nil {
				return cli.NewUsageError(c, fmt.Errorf("--may: %w", err))
			}
			rules = append(rules, r)
		}
		if f.file, err = access.Single(applications[0], rules); err != nil {
			return cli.NewUsageError(c, fmt.Errorf("--may: %w", err))
		}
	case f.print:
		return cli.NewUsageError(c, errors.New("--print-users-file goes with --may: it prints the file with these rules"))
	}
	return nil
}

func checkUsersCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE [USER...]",
		Short: "Check a users file, and say in words what each user can do and cannot",
		Example: `  coppice nats-config check users.yaml
  coppice nats-config check users.yaml shop`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := access.ReadFile(args[0])
			if err != nil {
				return err
			}
			return f.Explain(a.Stdout, args[1:]...)
		},
	}
}

// followUsers returns the table of a users file, which follows the file until ctx ends.
func followUsers(ctx context.Context, file string, log *slog.Logger, r prometheus.Registerer) (*access.Current, error) {
	f, err := access.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c := &access.Current{}
	c.Set(f.Table())
	r.MustRegister(c.Collector())
	tick := time.NewTicker(access.FollowInterval)
	go func() {
		defer tick.Stop()
		c.Follow(ctx, file, tick.C, log)
	}()
	return c, nil
}
