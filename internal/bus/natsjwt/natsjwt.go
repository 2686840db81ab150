// Package natsjwt writes the accounts of roles as JWTs, for NATS servers with an account resolver, and pushes them
// to servers that run. The accounts have the effects of those of package natsconf, which come from the same roles.
//
// The core account exports each verb, operation and type of JetStream request to accounts that have a token, which
// only the core account's key can sign. The token of an import names its subject and the importing account. So an
// account can import what its role may publish and nothing else, and the core account does not change when
// an actor is added: a server that gets a changed core account forgets the replies that are outstanding.
//
// The permissions of an actor are the default permissions of its account, so that they change by a push, too,
// and its credentials stay.
package natsjwt

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/datadir"
)

// Changes is what Write has changed.
type Changes struct {
	// Files are those that were written or removed, relative to the directory.
	Files []string
	// Added and Removed are actors.
	Added, Removed []string
	// Reissued are users that there were before, whose credentials have changed.
	Reissued []string
}

// Write writes the accounts of these roles into a directory. Keys that exist stay, and tokens whose claims would not
// change keep their bytes. The keys and the credentials of an actor that is not among the roles any more are removed,
// so that it gets others if it is added again.
func Write(dir string, roles []bus.Role) (changes Changes, err error) {
	services, err := bus.Services(roles)
	if err != nil {
		return changes, err
	}
	exports, err := bus.Exports(roles)
	if err != nil {
		return changes, err
	}
	for _, r := range bus.Actors(roles) {
		if r.Login.NKey != "" {
			return changes, fmt.Errorf("user %s: with accounts by JWT a user has a file of credentials, and no nkey of its own: leave out nkey", r.Name)
		}
		for _, taken := range []string{SystemAccount, bus.CoreAccount, Operator} {
			if strings.EqualFold(r.Name, taken) {
				return changes, fmt.Errorf("the name %q is taken: accounts by JWT have an account %s of their own", r.Name, taken)
			}
		}
	}
	if err := datadir.Own(dir); err != nil {
		return changes, err
	}
	lock, err := datadir.FS().Lock(filepath.Join(dir, "LOCK"))
	if err != nil {
		return changes, fmt.Errorf("%s is in use by another process: %w", dir, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	w := &writer{store: store{dir: dir}, services: services}
	if w.actors, err = readAccounts(filepath.Join(dir, AccountsFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return changes, err
	}
	err = w.write(roles, exports)
	for _, f := range w.changed {
		if rel, fail := filepath.Rel(dir, f); fail == nil {
			changes.Files = append(changes.Files, rel)
		}
	}
	changes.Added, changes.Removed, changes.Reissued = w.added, w.removed, w.reissued
	return changes, err
}

// writer writes a directory.
type writer struct {
	store
	services                 []bus.Service
	actors                   map[string]string // the public key of the account of each actor
	operator, core           nkeys.KeyPair
	coreKey                  string // the public key
	added, removed, reissued []string
}

func (w *writer) write(roles []bus.Role, exports []bus.Service) (err error) {
	about, err := json.Marshal(map[string]any{"managed": false, "name": Operator, "kind": jwt.OperatorClaim, "version": "1"})
	if err != nil {
		return err
	}
	if err := w.put(w.path(Operator, ".nsc"), about); err != nil {
		return err
	}
	var operatorKey string
	if w.operator, operatorKey, err = w.keyOf(nkeys.PrefixByteOperator, w.operatorToken()); err != nil {
		return err
	}
	system, systemKey, err := w.keyOf(nkeys.PrefixByteAccount, w.accountToken(SystemAccount))
	if err != nil {
		return err
	}
	operator := jwt.NewOperatorClaims(operatorKey)
	operator.Name, operator.SystemAccount = Operator, systemKey
	operatorToken, err := w.token(w.operatorToken(), operator, w.operator)
	if err != nil {
		return err
	}
	account := jwt.NewAccountClaims(systemKey)
	account.Name = SystemAccount
	systemToken, err := w.token(w.accountToken(SystemAccount), account, w.operator)
	if err != nil {
		return err
	}
	if err := w.user(SystemAccount, SystemUser, system, jwt.Permissions{}); err != nil {
		return err
	}
	if err := w.writeCore(roles, exports); err != nil {
		return err
	}
	if err := w.writeActors(bus.Actors(roles)); err != nil {
		return err
	}
	return w.put(w.path(ResolverFile), []byte(resolver(operatorToken, systemKey, systemToken)))
}

// writeCore writes the core account and its users.
func (w *writer) writeCore(roles []bus.Role, exports []bus.Service) (err error) {
	if w.core, w.coreKey, err = w.keyOf(nkeys.PrefixByteAccount, w.accountToken(bus.CoreAccount)); err != nil {
		return err
	}
	c := jwt.NewAccountClaims(w.coreKey)
	c.Name = bus.CoreAccount
	c.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit}
	for _, s := range exports {
		e := &jwt.Export{Name: s.Subject, Subject: jwt.Subject(s.Subject), Type: jwt.Service, TokenReq: true, ResponseType: jwt.ResponseTypeSingleton, ResponseThreshold: s.Threshold}
		if s.Stream {
			e.ResponseType = jwt.ResponseTypeStream
		}
		c.Exports.Add(e)
	}
	for _, subject := range feeds(bus.Actors(roles)) {
		c.Exports.Add(&jwt.Export{Name: subject, Subject: jwt.Subject(subject), Type: jwt.Stream, TokenReq: true})
	}
	if _, err := w.token(w.accountToken(bus.CoreAccount), c, w.operator); err != nil {
		return err
	}
	for _, r := range bus.Core(roles) {
		if err := w.user(bus.CoreAccount, r.Name, w.core, permissions(r)); err != nil {
			return err
		}
	}
	return nil
}

// feeds returns the subjects of the core account whose messages some of these roles receive.
func feeds(roles []bus.Role) []string {
	var list []string
	for _, r := range roles {
		list = append(list, r.Feeds()...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// writeActors writes the accounts of actors, and removes those of actors that there are no longer.
func (w *writer) writeActors(roles []bus.Role) error {
	keys := map[string]nkeys.KeyPair{}
	now := map[string]string{}
	for _, r := range roles {
		account := r.Account()
		key, err := w.key(nkeys.PrefixByteAccount, w.actors[account])
		if err != nil {
			return fmt.Errorf("account %s: %w", account, err)
		}
		if keys[account] = key; w.actors[account] == "" {
			w.added = append(w.added, account)
		}
		if now[account], err = key.PublicKey(); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.actors)) {
		if now[name] != "" {
			continue
		}
		if err := w.remove(name); err != nil {
			return fmt.Errorf("remove the account %s: %w", name, err)
		}
		w.removed = append(w.removed, name)
	}
	// The list comes before the accounts: whatever an interrupted run has written is listed.
	list, err := json.MarshalIndent(now, "", "  ")
	if err != nil {
		return err
	}
	if err := w.put(w.path(AccountsFile), append(list, '\n')); err != nil {
		return err
	}
	for _, r := range roles {
		if err := w.actor(r, keys[r.Account()], now[r.Account()]); err != nil {
			return fmt.Errorf("account %s: %w", r.Account(), err)
		}
	}
	return nil
}

// actor writes the account of an actor, and its user.
func (w *writer) actor(r bus.Role, key nkeys.KeyPair, public string) error {
	name := r.Account()
	c := jwt.NewAccountClaims(public)
	c.Name, c.DefaultPermissions = name, permissions(r)
	old, err := decoded(w.accountToken(name))
	if err != nil {
		return err
	}
	of := map[string]string{} // the tokens of the imports that there are, by their claims
	if o, ok := old.(*jwt.AccountClaims); ok {
		for _, i := range o.Imports {
			if claims, err := claimsOf(i.Token); err == nil {
				of[string(claims)] = i.Token
			}
		}
	}
	add := func(subject string, kind jwt.ExportType) error {
		a := jwt.NewActivationClaims(public)
		a.ImportSubject, a.ImportType = jwt.Subject(subject), kind
		token, err := a.Encode(w.core)
		if err != nil {
			return err
		}
		claims, err := claimsOf(token)
		if err != nil {
			return err
		}
		if same := of[string(claims)]; same != "" {
			token = same
		}
		c.Imports.Add(&jwt.Import{Name: subject, Subject: jwt.Subject(subject), Account: w.coreKey, Token: token, Type: kind})
		return nil
	}
	for _, s := range w.services {
		if slices.Contains(s.Accounts, name) {
			if err := add(s.Subject, jwt.Service); err != nil {
				return err
			}
		}
	}
	for _, subject := range r.Feeds() {
		if err := add(subject, jwt.Stream); err != nil {
			return err
		}
	}
	if _, err := w.token(w.accountToken(name), c, w.operator); err != nil {
		return err
	}
	return w.user(name, r.Name, key, jwt.Permissions{})
}

// user writes a user of an account, and its credentials.
func (w *writer) user(account, name string, by nkeys.KeyPair, p jwt.Permissions) error {
	key, public, err := w.keyOf(nkeys.PrefixByteUser, w.userToken(account, name))
	if err != nil {
		return err
	}
	c := jwt.NewUserClaims(public)
	c.Name, c.Permissions = name, p
	token, err := w.token(w.userToken(account, name), c, by)
	if err != nil {
		return err
	}
	seed, err := key.Seed()
	if err != nil {
		return err
	}
	creds, err := jwt.FormatUserConfig(token, seed)
	if err != nil {
		return err
	}
	before := len(w.changed)
	_, err = os.Stat(CredsFile(w.dir, name))
	had := err == nil
	if err := w.put(CredsFile(w.dir, name), creds); err != nil {
		return err
	}
	if had && len(w.changed) > before {
		w.reissued = append(w.reissued, name)
	}
	return nil
}

// remove replaces the account of an actor by a token without imports that refuses all of its users, and removes the
// keys and the credentials.
func (w *writer) remove(name string) error {
	public := w.actors[name]
	file := w.removedToken(public)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		c := jwt.NewAccountClaims(public)
		c.Name = name
		c.Limits.Conn, c.Limits.LeafNodeConn, c.Limits.Subs = 0, 0, 0
		c.Limits.Imports, c.Limits.Exports = 0, 0
		c.RevokeAt(jwt.All, time.Now())
		if _, err := w.token(file, c, w.operator); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	actor := strings.TrimPrefix(name, bus.UsersAccount(""))
	user, err := decoded(w.userToken(name, actor))
	if err != nil {
		return err
	}
	gone := []string{CredsFile(w.dir, actor), w.seedFile(public), w.path(Operator, "accounts", name)}
	if user != nil {
		gone = append(gone, w.seedFile(user.Claims().Subject))
	}
	for _, file := range gone {
		if err := os.RemoveAll(file); err != nil {
			return err
		}
		w.changed = append(w.changed, file)
	}
	return nil
}

// permissions returns the permissions of a role's user.
func permissions(r bus.Role) jwt.Permissions {
	return jwt.Permissions{
		Pub: jwt.Permission{Allow: jwt.StringList(r.Publish), Deny: jwt.StringList(r.Deny)},
		Sub: jwt.Permission{Allow: jwt.StringList(r.Subscribe)},
	}
}

// resolver returns what the configuration of a server includes.
func resolver(operatorToken, systemKey, systemToken string) string {
	return fmt.Sprintf(`# Accounts of a NATS server for Coppice, by JWT. Generated by 'coppice nats-config --jwt', and the same on each
# server of a cluster: include it, outside of any block. It does not change when an actor is added or removed.
# 'coppice nats-config --jwt DIR --push' copies the accounts to the servers that run.

operator: %s
system_account: %s

resolver: {
  type: full
  # The accounts, relative to the directory in which the server starts. Each server needs a directory of its own.
  dir: "./coppice-accounts"
  # For --delete-removed.
  allow_delete: true
  # How often servers of a cluster compare their accounts.
  interval: "2m"
}

# The account from which the others are pushed.
resolver_preload: {
  %s: %s
}
`, operatorToken, systemKey, systemKey, systemToken)
}
