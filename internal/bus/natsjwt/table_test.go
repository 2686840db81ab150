package natsjwt_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/coppice-gc/coppice/internal/bus/natsjwt"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

func accountKey(t *testing.T) string {
	t.Helper()
	key, err := nkeys.CreateAccount()
	must.Succeed(t, err)
	public, err := key.PublicKey()
	must.Succeed(t, err)
	return public
}

// A table follows its file, and stays as it is while the file is broken.
func TestTable(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	file := filepath.Join(t.TempDir(), natsjwt.AccountsFile)
	one, two := accountKey(t), accountKey(t)
	write := func(text string) {
		t.Helper()
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	}
	broken := []string{
		"", `{"a":1}`, "[]", "{}", `{"shop":"x"}`, fmt.Sprintf(`{"a.b":%q}`, one), fmt.Sprintf(`{"shop":%q,"billing":%q}`, one, one),
	}
	if _, err := natsjwt.OpenTable(file); err == nil {
		t.Error("a file that does not exist is read")
	}
	for _, text := range broken {
		write(text)
		if _, err := natsjwt.OpenTable(file); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%q: %v", text, err)
		}
	}
	write(fmt.Sprintf(`{"shop":%q}`, one))
	table, err := natsjwt.OpenTable(file)
	must.Succeed(t, err)
	has := func(account, want string) bool {
		actor, ok := table.Actor(account)
		return actor == want && ok == (want != "")
	}
	if !has(one, "shop") || !has(two, "") {
		t.Error("the table is not what its file says")
	}
	var said testkit.Output
	ticks := make(chan time.Time)
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		table.Follow(running, ticks, slog.New(slog.NewTextHandler(&said, nil)))
	}()
	tick := func() { // the second tick is taken when the file has been read after the first
		for range 2 {
			ticks <- time.Time{}
		}
	}
	tick()
	if said.String() != "" {
		t.Errorf("without a change: %s", &said)
	}
	for _, text := range broken {
		write(text)
		tick()
		if !has(one, "shop") {
			t.Errorf("the table is lost with %q", text)
		}
	}
	must.Succeed(t, os.Remove(file))
	tick()
	if got := strings.Count(said.String(), "level=ERROR"); got != len(broken)+1 || !has(one, "shop") {
		t.Errorf("%d errors of %d: %s", got, len(broken)+1, &said)
	}
	write(fmt.Sprintf(`{"billing":%q,"shop":%q}`, one, two))
	tick()
	if !has(one, "billing") || !has(two, "shop") || !strings.Contains(said.String(), "have changed") {
		t.Errorf("the table is not what its file says: %s", &said)
	}
	stop()
	testkit.Receive(t, ctx, "the end", ended)
}
