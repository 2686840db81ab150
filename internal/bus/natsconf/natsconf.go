// Package natsconf writes the configuration of a NATS server with an account for
// each actor, from the roles themselves, so that the two cannot differ.
package natsconf

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/internal/bus"
)

//go:generate go run ./generate ../../../deploy/nats/coppice.conf

// DefaultRoles returns the roles of deploy/nats/coppice.conf, in its order: those of
// the services, one example of each other actor, and the administrator's, in every
// realm.
func DefaultRoles() []bus.Role {
	return append(bus.Roles(bus.AnyRealm), bus.AdminRole())
}

// Write writes the configuration of a server with the accounts of these roles, whose
// passwords are in variables: see PasswordVariable. include is the file that defines the
// variables, relative to the directory of the configuration; without it they are those of
// the environment. If the roles are refused, it writes nothing.
func Write(w io.Writer, roles []bus.Role, include string) error {
	var b strings.Builder
	fmt.Fprintf(&b, `# A NATS server for Coppice, with an account for each actor.
#
# The account %s has the log, work, leases and the graph service. Each other
# actor has an account of its own, of its name, which imports what the actor may
# publish. Generated from internal/bus; 'coppice nats-config' writes the
# configuration for other actors. A new realm needs no change.
#
# An actor is added without a restart: change this file, then run
# 'nats-server --signal reload' twice. The first reload creates the account, the
# second activates its imports (nats-server 2.15.2); between the two the new actor's
# requests fail with "no responders".
#
%s The variables are:
#
`, bus.CoreAccount, passwordsFrom(include))
	for _, r := range roles {
		if v := variable(&r); v != "" {
			fmt.Fprintf(&b, "#   %-36s %s\n", v, r.About)
		}
	}
	b.WriteString(`#
# Deployments replace passwords by nkeys, credentials or certificates as NATS
# has them.

`)
	if include != "" {
		fmt.Fprintf(&b, "include %q\n\n", include)
	}
	b.WriteString(`server_name: coppice
listen: "127.0.0.1:4222"

# Commits are up to this large; the graph service asks the server for it.
max_payload: 8MB
max_pending: 256MB

jetstream {
  store_dir: "./coppice-nats"
  # What is acknowledged is on disk. Without it the last seconds before a power
  # loss would be lost although they were acknowledged.
  sync_interval: always
}

`)
	if err := Accounts(&b, roles, func(role string) string { return "$" + PasswordVariable(role) }); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// passwordsFrom is the comment that says where the passwords are.
func passwordsFrom(include string) string {
	if include != "" {
		return `# Passwords come from the file that is included below; 'coppice nats-config' with the
# same flags and one more adds that of another actor.`
	}
	return `# Passwords come from the environment in which the server starts. The environment of
# a server that runs does not change: the password of an actor that is added later
# comes from a file, which a line 'include ./passwords.conf' before the accounts
# names, with lines such as 'COPPICE_SHOP_PASSWORD: "..."'.`
}

// Passwords writes the file with the variables of these roles. password returns the password of a
// user.
func Passwords(w io.Writer, roles []bus.Role, password func(role string) string) error {
	for _, r := range roles {
		if r.Login != (bus.Login{}) {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s: %q\n", PasswordVariable(r.Name), password(r.Name)); err != nil {
			return err
		}
	}
	return nil
}

// Accounts writes the accounts of these roles. password spells a user's password
// as the file has it: a quoted string, or a variable.
func Accounts(w io.Writer, roles []bus.Role, password func(role string) string) error {
	services, err := bus.Services(roles)
	if err != nil {
		return err
	}
	var b strings.Builder
	core(&b, bus.Core(roles), password)
	b.WriteString("    exports: [\n")
	for _, s := range services {
		fmt.Fprintf(&b, "      { service: %q, accounts: [%s]", s.Subject, strings.Join(s.Accounts, ", "))
		if s.Stream {
			b.WriteString(", response_type: stream")
		}
		if s.Threshold > 0 {
			fmt.Fprintf(&b, ", threshold: %q", s.Threshold)
		}
		b.WriteString(" }\n")
	}
	for _, r := range bus.Actors(roles) {
		for _, subject := range r.Feeds() {
			fmt.Fprintf(&b, "      { stream: %q, accounts: [%s] }\n", subject, r.Account())
		}
	}
	b.WriteString("    ]\n  }\n")
	for _, r := range bus.Actors(roles) {
		fmt.Fprintf(&b, "  %s {\n    users: [\n", r.Account())
		user(&b, r, password)
		b.WriteString("    ]\n    imports: [\n")
		for _, s := range services {
			if slices.Contains(s.Accounts, r.Account()) {
				fmt.Fprintf(&b, "      { service: { account: %s, subject: %q } }\n", bus.CoreAccount, s.Subject)
			}
		}
		for _, subject := range r.Feeds() {
			fmt.Fprintf(&b, "      { stream: { account: %s, subject: %q } }\n", bus.CoreAccount, subject)
		}
		b.WriteString("    ]\n  }\n")
	}
	b.WriteString("}\n")
	_, err = io.WriteString(w, b.String())
	return err
}

// OneAccount writes the core account with all roles in it, as on a server without accounts: for
// servers to which only this process connects, and for tests.
func OneAccount(w io.Writer, roles []bus.Role, password func(role string) string) error {
	var b strings.Builder
	core(&b, roles, password)
	b.WriteString("  }\n}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// core begins the core account.
func core(b *strings.Builder, roles []bus.Role, password func(role string) string) {
	fmt.Fprintf(b, "accounts {\n  %s {\n    jetstream: enabled\n    users: [\n", bus.CoreAccount)
	for _, r := range roles {
		user(b, r, password)
	}
	b.WriteString("    ]\n")
}

func user(b *strings.Builder, r bus.Role, password func(string) string) {
	fmt.Fprintf(b, "      # %s\n      {\n", r.About)
	switch of := r.Login; {
	case of.NKey != "":
		fmt.Fprintf(b, "        nkey: %s\n", of.NKey)
	case of.Hash != "":
		fmt.Fprintf(b, "        user: %s\n        password: %q\n", r.Name, of.Hash)
	case of.Variable != "":
		fmt.Fprintf(b, "        user: %s\n        password: $%s\n", r.Name, of.Variable)
	default:
		fmt.Fprintf(b, "        user: %s\n        password: %s\n", r.Name, password(r.Name))
	}
	b.WriteString("        permissions: {\n")
	list(b, "publish", r.Publish, r.Deny)
	list(b, "subscribe", r.Subscribe, nil)
	b.WriteString("        }\n      }\n")
}

func list(b *strings.Builder, what string, allow, deny []string) {
	fmt.Fprintf(b, "          %s: { allow: [\n", what)
	for _, s := range allow {
		fmt.Fprintf(b, "            %q\n", s)
	}
	b.WriteString("          ]")
	if len(deny) > 0 {
		b.WriteString(", deny: [\n")
		for _, s := range deny {
			fmt.Fprintf(b, "            %q\n", s)
		}
		b.WriteString("          ]")
	}
	b.WriteString(" }\n")
}

// variable returns the variable that has the password of a user, empty if none has.
func variable(r *bus.Role) string {
	switch {
	case r.Login.Variable != "":
		return r.Login.Variable
	case r.Login == bus.Login{}:
		return PasswordVariable(r.Name)
	}
	return ""
}

// PasswordVariable is the environment variable that has a role's password.
func PasswordVariable(role string) string {
	return "COPPICE_" + strings.ToUpper(strings.ReplaceAll(role, "-", "_")) + "_PASSWORD"
}
