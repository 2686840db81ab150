// Package natsconf writes the configuration of a NATS server with a user for
// each role, from the roles themselves, so that the two cannot differ.
package natsconf

import (
	"fmt"
	"io"
	"strings"

	"github.com/coppice-gc/coppice/internal/bus"
)

//go:generate go run ./generate ../../../deploy/nats/coppice.conf

// Write writes the configuration for a deployment of these realms.
func Write(w io.Writer, realms ...string) error {
	var b strings.Builder
	fmt.Fprintf(&b, `# A NATS server for Coppice, with a user for each role and its permissions.
#
# Generated from internal/bus for realm %s; 'coppice nats-config --realm NAME'
# writes one for other realms. Passwords come from the environment:
#
`, strings.Join(realms, ", "))
	roles := bus.Roles(realms...)
	for _, r := range roles {
		fmt.Fprintf(&b, "#   %-32s %s\n", PasswordVariable(r.Name), r.About)
	}
	b.WriteString(`#
# Deployments replace passwords by nkeys, credentials or certificates as NATS
# has them, and add a user like 'finalizer' for each external finalizer and
# one like 'application' for each application.

server_name: coppice
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

authorization {
  users: [
`)
	for _, r := range roles {
		fmt.Fprintf(&b, "    # %s\n    {\n      user: %s\n      password: $%s\n      permissions: {\n", r.About, r.Name, PasswordVariable(r.Name))
		list(&b, "publish", r.Publish)
		list(&b, "subscribe", r.Subscribe)
		b.WriteString("      }\n    }\n")
	}
	b.WriteString("  ]\n}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func list(b *strings.Builder, what string, subjects []string) {
	fmt.Fprintf(b, "        %s: { allow: [\n", what)
	for _, s := range subjects {
		fmt.Fprintf(b, "          %q\n", s)
	}
	b.WriteString("        ] }\n")
}

// PasswordVariable is the environment variable that has a role's password.
func PasswordVariable(role string) string {
	return "COPPICE_" + strings.ToUpper(strings.ReplaceAll(role, "-", "_")) + "_PASSWORD"
}
