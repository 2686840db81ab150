package overview

import (
	"fmt"
	"strings"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/internal/bus"
)

// command returns a command line about one object, which takes the place of the first %s of format.
func (b *Builder) command(format string, of view.Ref, args ...any) string {
	line := fmt.Sprintf(format, append([]any{quoted(of.Resource + "/" + of.Name)}, args...)...)
	if of.Namespace != "" {
		line += " -n " + quoted(of.Namespace)
	}
	return b.realmCommand(line)
}

// realmCommand returns a command line of the realm.
func (b *Builder) realmCommand(line string) string {
	if realm := b.c.Client.Realm(); realm != bus.DefaultRealm {
		line += " --realm " + quoted(realm)
	}
	return "coppice " + line
}

// quoted returns a word of a command line for a shell. Clients choose the names of objects.
func quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._/:@%+=,", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
