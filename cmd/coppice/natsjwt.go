package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsjwt"
)

// jwtHelp is the part of the help of nats-config about accounts by JWT.
const jwtHelp = `

With --jwt, the accounts are JWTs, for NATS servers with an account resolver: an actor
is added and removed by a push, without a reload. The directory has the layout of the
nsc command (nsc --all-dirs DIR), and also DIR/resolver.conf, which the configuration
of each server includes, DIR/creds/USER.creds for --creds, and DIR/accounts.json for
--account-keys of the graph service. Keys that exist stay, and accounts that would not
change keep their bytes. The keys of a user who is not named any more are removed.
--push copies the accounts to the servers that run, as the user of DIR/creds/sys.creds
unless another is named. It prints what each server says about each account, and fails
unless all servers have taken all accounts within --timeout.`

// jwtFlags are the flags of accounts by JWT.
type jwtFlags struct {
	dir                 string
	push, deleteRemoved bool
}

func (f *jwtFlags) add(a *cli.App, c *cobra.Command) {
	c.Flags().StringVar(&f.dir, "jwt", "", "`DIR` to write the accounts to as JWTs, with the keys that sign them; those that exist stay")
	c.Flags().BoolVar(&f.push, "push", false, "copy the accounts of --jwt to the NATS servers that run")
	c.Flags().BoolVar(&f.deleteRemoved, "delete-removed", false, "with --push, delete accounts of removed users from the servers, while all servers run; without it they stay there without permissions")
	a.Dial.Flags(c.Flags())
}

// check refuses flags that go with others only.
func (f *jwtFlags) check(others ...string) error {
	switch {
	case f.dir == "" && (f.push || f.deleteRemoved):
		return errors.New("--push and --delete-removed need --jwt with the directory of the accounts")
	case f.deleteRemoved && !f.push:
		return errors.New("--delete-removed needs --push")
	}
	for _, other := range others {
		if f.dir != "" && other != "" {
			return fmt.Errorf("--jwt and --%s are both given: choose one", other)
		}
	}
	return nil
}

// run writes the accounts, and pushes them.
func (f *jwtFlags) run(ctx context.Context, a *cli.App, roles []bus.Role) error {
	changes, err := natsjwt.Write(f.dir, roles)
	if err != nil {
		return err
	}
	var said strings.Builder
	for _, name := range changes.Added {
		fmt.Fprintf(&said, "%s: added; credentials in %s\n", name, natsjwt.CredsFile(f.dir, strings.TrimPrefix(name, bus.UsersAccount(""))))
	}
	for _, name := range changes.Removed {
		fmt.Fprintf(&said, "%s: removed; the servers refuse the user once the accounts are pushed\n", name)
	}
	for _, name := range changes.Reissued {
		fmt.Fprintf(&said, "%s: other permissions; its programs need the new credentials in %s\n", name, natsjwt.CredsFile(f.dir, strings.TrimPrefix(name, bus.UsersAccount(""))))
	}
	fmt.Fprintf(&said, "%d files of %s have changed\n", len(changes.Files), f.dir)
	if !f.push {
		said.WriteString("The servers know of it after a push: the same command with --push and --server\n")
	}
	if _, err := io.WriteString(a.Stdout, said.String()); err != nil || !f.push {
		return err
	}
	return f.pushTo(ctx, a)
}

func (f *jwtFlags) pushTo(ctx context.Context, a *cli.App) error {
	if err := a.Dial.Complete(); err != nil {
		return err
	}
	if !a.Dial.Given("user", "creds", "nkey", "context") {
		a.Dial.User, a.Dial.Password, a.Dial.NKey, a.Dial.Context = "", "", "", ""
		a.Dial.Creds = natsjwt.CredsFile(f.dir, natsjwt.SystemUser)
	}
	nc, err := a.Dial.Client(ctx, "coppice")
	if err != nil {
		return err
	}
	defer nc.Close()
	nc.SetErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}) // Run returns them
	p := natsjwt.Push{Conn: nc, Dir: f.dir, Timeout: a.Dial.Timeout, DeleteRemoved: f.deleteRemoved, Report: func(r natsjwt.Answer) {
		what := r.Message
		if r.Failed {
			what = "refused: " + r.Message
		}
		_, _ = fmt.Fprintf(a.Stdout, "%s: %s: %s\n", r.Server, r.Account, what)
	}}
	return p.Run(ctx)
}

// accountKeysFlag is the flag of the graph service with the accounts of actors.
type accountKeysFlag struct{ file string }

func (f *accountKeysFlag) add(c *cobra.Command) {
	c.Flags().StringVar(&f.file, "account-keys", "", "file with the public key of the account of each actor, for accounts by JWT: "+natsjwt.AccountsFile+" of 'coppice nats-config --jwt'; it is read again when it changes")
}

// accountKeysInterval is the time between two readings of the file.
const accountKeysInterval = 2 * time.Second

// open returns the function for the configuration of the graph service, which is nil without the flag. The file is
// followed until ctx ends.
func (f *accountKeysFlag) open(ctx context.Context, log *slog.Logger) (func(account string) (actor string, ok bool), error) {
	if f.file == "" {
		return nil, nil
	}
	table, err := natsjwt.OpenTable(filepath.Clean(f.file))
	if err != nil {
		return nil, fmt.Errorf("--account-keys: %w", err)
	}
	tick := time.NewTicker(accountKeysInterval)
	go func() {
		defer tick.Stop()
		table.Follow(ctx, tick.C, log)
	}()
	return table.Actor, nil
}

// given returns the name of a flag if it was given, and "" otherwise.
func given(c *cobra.Command, flag string) string {
	if c.Flags().Changed(flag) {
		return flag
	}
	return ""
}
