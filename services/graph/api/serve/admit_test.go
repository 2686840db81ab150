package serve

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/bus"
)

// The account of a request must be its actor's: that of its name, or of the name that Actors returns.
func TestAdmitAccount(t *testing.T) {
	t.Parallel()
	const key, other = "ACXKZPLYITTPB4IF7OERH4R32Z2ZZJUEZSGUQNWGBGV5UJFBZVO6T7IB", "AB72DIVDFSXVCXDG72VRSCEILLKVR4XOMYTUKESF5UXYFFN7ODDB5ZY4"
	byKey := &Config{Actors: func(account string) (string, bool) {
		actor := map[string]string{key: "shop", "team": "shop"}[account]
		return actor, actor != ""
	}}
	for _, c := range []struct {
		config   *Config
		account  string
		ofClient bool
		refused  string // what the error says
	}{
		{&Config{}, "shop", true, ""},
		{&Config{}, "billing", true, "each actor has an account of its own, of its name"},
		{&Config{}, key, true, "start it with --account-keys"},
		{byKey, key, true, ""},
		{byKey, "team", true, ""},
		{byKey, other, true, "copy the current accounts.json"},
		{byKey, "shop", true, "copy the current accounts.json"},
		{&Config{Actors: func(string) (string, bool) { return "billing", true }}, key, true, `the account "billing", and its actor is shop`},
		{&Config{AnyActor: true}, bus.LocalUser, true, ""},
		{&Config{AnyActor: true}, bus.LocalUser, false, "each actor has an account of its own"},
	} {
		err := c.config.admitAccount(fmt.Sprintf(`{"acc":%q}`, c.account), []string{"shop"}, c.ofClient)
		if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Message, c.refused) {
			t.Errorf("from the account %s: %v, want %q", c.account, err, c.refused)
		}
	}
}
