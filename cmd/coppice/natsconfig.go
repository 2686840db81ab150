package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsconf"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// actorFlags name the actors of a deployment.
type actorFlags struct {
	realms                        []string
	applications                  []string
	readers, viewers              []string
	operators, finalizers, agents []string
	controllers, expiry           []string
	bench                         bool
	users                         usersFlags
}

func (f *actorFlags) add(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.realms, "realm", nil, "realm that the users may reach; may be repeated (default: every realm)")
	c.Flags().StringArrayVar(&f.applications, "application", []string{bus.RoleApplication}, "name of an application; may be repeated")
	c.Flags().StringArrayVar(&f.readers, "reader", []string{bus.RoleReader}, "name of a user who reads everything, the past included; may be repeated")
	c.Flags().StringArrayVar(&f.viewers, "viewer", []string{bus.RoleViewer}, "name of a user who reads the present only; may be repeated")
	c.Flags().StringArrayVar(&f.operators, "operator", []string{bus.RoleOperator}, "name of an operator; may be repeated")
	c.Flags().StringArrayVar(&f.controllers, "controller", nil, "USER or USER=FINALIZER, an application that also elects a leader and may run an external finalizer; may be repeated, also for several finalizers of one user")
	c.Flags().StringArrayVar(&f.finalizers, "finalizer", []string{bus.RoleFinalizer + "=" + bus.ExampleFinalizer}, "USER=FINALIZER, a controller and the external finalizer that it runs; may be repeated")
	c.Flags().StringArrayVar(&f.agents, "agent", []string{bus.RoleAgent + "=" + bus.ExampleAgent}, "USER=RESOURCE, a controller and the kind of which it is the agent; may be repeated")
	c.Flags().StringArrayVar(&f.expiry, "expiry", nil, "USER=NAME, a program and the name by which expiry policies call it; may be repeated")
	c.Flags().BoolVar(&f.bench, "bench", false, "add the user of 'coppice bench --server'")
	f.users.add(c)
}

// roles are those of the services and of these actors.
func (f *actorFlags) roles() ([]bus.Role, error) {
	realms := f.realms
	for _, r := range realms {
		if err := bus.CheckRealm(r); err != nil {
			return nil, err
		}
	}
	if len(realms) == 0 {
		realms = []string{bus.AnyRealm}
	}
	roles := append(bus.ServiceRoles(bus.AnyRealm), bus.AdminRole()) // realms are created while they run
	if f.users.file != nil && len(f.users.may) == 0 {
		return append(roles, f.users.file.NATSRoles()...), nil
	}
	for _, n := range f.applications {
		if f.users.file != nil && f.users.file.Users[n] != nil {
			roles = append(roles, f.users.file.NATSRoles()...)
			continue
		}
		roles = append(roles, bus.ApplicationRole(n, realms...))
	}
	for _, n := range f.readers {
		roles = append(roles, bus.ReaderRole(n, realms...))
	}
	for _, n := range f.viewers {
		roles = append(roles, bus.ViewerRole(n, realms...))
	}
	for _, n := range f.operators {
		roles = append(roles, bus.OperatorRole(n, realms...))
	}
	var controllers []string
	finalizersOf := map[string][]string{}
	for _, n := range f.controllers {
		user, finalizers := n, []string{}
		if strings.Contains(n, "=") {
			of, finalizer, err := finalizerOf("controller", n)
			if err != nil {
				return nil, err
			}
			user, finalizers = of, []string{finalizer}
		}
		if finalizersOf[user] == nil {
			controllers = append(controllers, user)
		}
		finalizersOf[user] = append(finalizersOf[user], finalizers...)
	}
	for _, user := range controllers {
		roles = append(roles, bus.ControllerRole(user, finalizersOf[user], realms...))
	}
	for _, n := range f.finalizers {
		user, finalizer, err := finalizerOf("finalizer", n)
		if err != nil {
			return nil, err
		}
		roles = append(roles, bus.FinalizerRole(user, finalizer, realms...))
	}
	for _, n := range f.agents {
		user, resource, ok := strings.Cut(n, "=")
		if !ok || resource == "" {
			return nil, fmt.Errorf("--agent %q: write USER=RESOURCE, such as kubelet=pods", n)
		}
		r := client.ParseResource(resource)
		if err := lifecycle.CheckResource(r.Group, r.Plural); err != nil {
			return nil, fmt.Errorf("--agent %q: %s", n, err.Message)
		}
		roles = append(roles, bus.AgentRole(user, r.Group, r.Plural, realms...))
	}
	for _, n := range f.expiry {
		user, name, ok := strings.Cut(n, "=")
		if !ok || name == "" || lifecycle.CheckFinalizer(name) != nil {
			return nil, fmt.Errorf("--expiry %q: write USER=NAME, such as keeper=example.com/keeper", n)
		}
		roles = append(roles, bus.ExpiryRole(user, name, realms...))
	}
	if f.bench {
		roles = append(roles, bus.BenchRole(realms...))
	}
	for _, r := range roles {
		if r.Name == bus.LocalUser {
			return nil, fmt.Errorf("the name %q is that of the user without a password of coppice up: choose another", r.Name)
		}
	}
	return roles, nil
}

// finalizerOf splits the value USER=FINALIZER of a flag.
func finalizerOf(flag, value string) (user, finalizer string, err error) {
	user, finalizer, ok := strings.Cut(value, "=")
	if !ok || finalizer == "" {
		return "", "", fmt.Errorf("--%s %q: write USER=FINALIZER, such as bucket=example.com/bucket", flag, value)
	}
	if err := lifecycle.CheckFinalizer(finalizer); err != nil {
		return "", "", fmt.Errorf("--%s %q: %s", flag, value, err.Message)
	}
	return user, finalizer, nil
}

func natsConfigCommand(a *cli.App) *cobra.Command {
	var f actorFlags
	var passwords string
	var accountsOnly bool
	var tokens jwtFlags
	c := &cobra.Command{
		Use:     "nats-config",
		GroupID: "operate",
		Short:   "Print a NATS server configuration with an account for each actor",
		Long: `Print the configuration of a NATS server: an account for the graph service and the
log, and one for each actor, which imports the subjects that the actor may publish to.
To add an actor, print the configuration again with the same flags and one more, and
let the server reload it twice: the first reload creates the account, the second
activates its imports (nats-server 2.15.2). Between the two, requests of the new actor
fail with "no responders".

With --passwords, the directory gets a file with the password of each user, such as
DIR/graph, for --password-file, and DIR/passwords.conf with all of them, which the
configuration includes. Passwords that exist stay. Write the configuration into the
directory to which DIR is relative.

With --users-file the users, and what each may do, come from a file, which graph services need, too: 'coppice
graph --users-file'. 'coppice nats-config check' says in words what the file means.

Without --passwords, passwords come from environment variables, which the configuration names.
The password of an actor that is added while the server runs must then come from a file
that the configuration includes, as the header of the output says.

With --accounts-only, only the accounts are printed, for an include line in the
configuration of each server. The configuration itself then stays as it is, as on the
servers of a cluster.` + jwtHelp,
		Example: `  coppice nats-config --passwords passwords > coppice.conf
  coppice nats-config --application shop --application billing --finalizer bucket=example.com/bucket > coppice.conf
  coppice nats-config --users-file users.yaml --passwords passwords > coppice.conf
  coppice nats-config --accounts-only --application shop > accounts.conf
  coppice nats-config --jwt accounts --application shop
  coppice nats-config --jwt accounts --application shop --push --server nats://nats-a.example.com:4222`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := tokens.check(given(c, "passwords"), given(c, "accounts-only")); err != nil {
				return cli.NewUsageError(c, err)
			}
			if err := f.users.read(c, f.applications); err != nil {
				return err
			}
			roles, err := f.roles()
			if err != nil {
				return err
			}
			if f.users.print {
				return f.users.file.Write(a.Stdout)
			}
			if tokens.dir != "" {
				return tokens.run(c.Context(), a, roles)
			}
			write := natsconf.Write
			if accountsOnly {
				write = natsconf.WriteAccounts
			}
			if passwords == "" {
				return write(a.Stdout, roles, "")
			}
			if filepath.IsAbs(passwords) {
				return cli.NewUsageError(c, fmt.Errorf("--passwords %s: write a directory relative to that of the configuration, from which NATS reads it", passwords))
			}
			var config bytes.Buffer // nothing is written if the roles are refused
			if err := write(&config, roles, filepath.ToSlash(filepath.Join(passwords, passwordsFile))); err != nil {
				return err
			}
			if err := writePasswords(passwords, roles); err != nil {
				return err
			}
			_, err = config.WriteTo(a.Stdout)
			return err
		},
	}
	f.add(c)
	c.AddCommand(checkUsersCommand(a))
	tokens.add(a, c)
	c.Flags().BoolVar(&accountsOnly, "accounts-only", false, "print the accounts alone, which a configuration includes")
	c.Flags().StringVar(&passwords, "passwords", "", "`DIR` with the passwords; those that do not exist are generated")
	return c
}
