package natsjwt

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/coppice-gc/coppice/internal/bus"
)

// Table says which actor has an account. It is the content of the file that Write calls AccountsFile: a JSON
// object with the public key of the account of each actor.
type Table struct {
	file    string
	current atomic.Pointer[table]
}

type table struct {
	data   []byte
	actors map[string]string // by the public key of the account
}

// OpenTable reads a table.
func OpenTable(file string) (*Table, error) {
	t := &Table{file: file}
	if _, err := t.read(); err != nil {
		return nil, err
	}
	return t, nil
}

// Actor returns the actor that has an account.
func (t *Table) Actor(account string) (actor string, ok bool) {
	actor, ok = t.current.Load().actors[account]
	return actor, ok
}

// Follow reads the file again at each tick until ctx ends. The table stays as it was if the file cannot be read.
func (t *Table) Follow(ctx context.Context, ticks <-chan time.Time, log *slog.Logger) {
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		changed, err := t.read()
		switch {
		case err != nil && err.Error() != said: // once, however often it is read
			said = err.Error()
			log.Error("the accounts of actors stay as they were", "error", err)
		case err == nil:
			said = ""
		}
		if changed {
			log.Info("the accounts of actors have changed", "file", t.file, "actors", len(t.current.Load().actors))
		}
	}
}

// read replaces the table by that of the file if it has changed.
func (t *Table) read() (changed bool, err error) {
	data, err := os.ReadFile(t.file)
	if err != nil {
		return false, fmt.Errorf("accounts of actors: %w", err)
	}
	if old := t.current.Load(); old != nil && bytes.Equal(old.data, data) {
		return false, nil
	}
	accounts, err := parseAccounts(data)
	if err != nil {
		return false, fmt.Errorf("accounts of actors: %s: %w", t.file, err)
	}
	next := &table{data: data, actors: make(map[string]string, len(accounts))}
	for actor, account := range accounts {
		next.actors[account] = actor
	}
	t.current.Store(next)
	return true, nil
}

// readAccounts returns the public key of the account of each actor.
func readAccounts(file string) (map[string]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	accounts, err := parseAccounts(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return accounts, nil
}

func parseAccounts(data []byte) (map[string]string, error) {
	var accounts map[string]string
	if err := json.Unmarshal(data, &accounts); err != nil {
		return nil, fmt.Errorf("not a JSON object with the public key of the account of each actor: %w", err)
	}
	if len(accounts) == 0 {
		return nil, fmt.Errorf("no actor has an account")
	}
	of := map[string]string{}
	for actor, account := range accounts {
		if err := checkAccount(actor); err != nil {
			return nil, err
		}
		if !nkeys.IsValidPublicAccountKey(account) {
			return nil, fmt.Errorf("actor %s: %q is not the public key of an account", actor, account)
		}
		if other, taken := of[account]; taken {
			return nil, fmt.Errorf("the actors %s and %s have the same account, %s", min(actor, other), max(actor, other), account)
		}
		of[account] = actor
	}
	return accounts, nil
}

// checkAccount checks the name of an account: that of an actor, or of a user of a users file.
func checkAccount(name string) error {
	return bus.CheckActor(strings.TrimPrefix(name, bus.UsersAccount("")))
}
