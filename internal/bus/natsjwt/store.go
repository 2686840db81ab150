package natsjwt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/coppice-gc/coppice/internal/datadir"
)

// Names of what a directory has.
const (
	// Operator is the name of the operator, and of its directory.
	Operator = "coppice"
	// SystemAccount is the account whose user pushes accounts to servers.
	SystemAccount = "SYS"
	// SystemUser is the user of SystemAccount.
	SystemUser = "sys"
	// AccountsFile has the public keys of the accounts of actors: see Table.
	AccountsFile = "accounts.json"
	// ResolverFile is what the configuration of a NATS server includes.
	ResolverFile = "resolver.conf"
)

// store is a directory in the layout of the nsc command with --all-dirs.
type store struct {
	dir     string
	changed []string // the files that were written, in order
}

func (s *store) path(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}

func (s *store) operatorToken() string { return s.path(Operator, Operator+".jwt") }

func (s *store) accountToken(account string) string {
	return s.path(Operator, "accounts", account, account+".jwt")
}

func (s *store) userToken(account, user string) string {
	return s.path(Operator, "accounts", account, "users", user+".jwt")
}

// CredsFile returns the file of the credentials of a user in a directory.
func CredsFile(dir, user string) string { return filepath.Join(dir, "creds", user+".creds") }

// removedToken is the file of the token that takes all permissions from an account that was removed.
func (s *store) removedToken(account string) string { return s.path("removed", account+".jwt") }

func (s *store) seedFile(public string) string {
	return s.path("keys", public[:1], public[1:3], public+".nk")
}

// put writes a file unless it has this content.
func (s *store) put(file string, data []byte) error {
	old, err := os.ReadFile(file)
	if err == nil && bytes.Equal(old, data) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := datadir.Make(filepath.Dir(file)); err != nil {
		return err
	}
	if err := datadir.ReplaceFile(file, data); err != nil {
		return err
	}
	s.changed = append(s.changed, file)
	return nil
}

// key returns a key of the store, or a new one if public is empty.
func (s *store) key(kind nkeys.PrefixByte, public string) (nkeys.KeyPair, error) {
	if public != "" {
		return s.readKey(public)
	}
	key, err := nkeys.CreatePair(kind)
	if err != nil {
		return nil, err
	}
	if public, err = key.PublicKey(); err != nil {
		return nil, err
	}
	seed, err := key.Seed()
	if err != nil {
		return nil, err
	}
	return key, s.put(s.seedFile(public), seed)
}

func (s *store) readKey(public string) (nkeys.KeyPair, error) {
	seed, err := os.ReadFile(s.seedFile(public))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the seed of %s is missing: %w; restore the file from a backup: another key would end the access of its users", public, err)
	}
	if err != nil {
		return nil, err
	}
	key, err := nkeys.FromSeed(seed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.seedFile(public), err)
	}
	got, err := key.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.seedFile(public), err)
	}
	if got != public {
		return nil, fmt.Errorf("%s has the seed of another key, %s", s.seedFile(public), got)
	}
	return key, nil
}

// keyOf returns the key that a token is about, and its public key. They are new if there is no token.
func (s *store) keyOf(kind nkeys.PrefixByte, file string) (key nkeys.KeyPair, public string, err error) {
	old, err := decoded(file)
	if err != nil {
		return nil, "", err
	}
	if old != nil {
		public = old.Claims().Subject
	}
	if key, err = s.key(kind, public); err == nil {
		public, err = key.PublicKey()
	}
	return key, public, err
}

// decoded returns the claims of a token; nil if the file does not exist.
func decoded(file string) (jwt.Claims, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	claims, err := jwt.Decode(string(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return claims, nil
}

// encoder is what claims of all types have.
type encoder interface {
	jwt.Claims
	Encode(nkeys.KeyPair) (string, error)
}

// token writes a token of these claims, unless the file has one with equal claims. It returns the token.
func (s *store) token(file string, c encoder, by nkeys.KeyPair) (string, error) {
	problems := jwt.CreateValidationResults()
	c.Validate(problems)
	if err := errors.Join(problems.Errors()...); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	token, err := c.Encode(by)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	old, err := os.ReadFile(file)
	if err == nil && equalClaims(string(old), token) {
		return string(old), nil
	}
	return token, s.put(file, []byte(token))
}

// equalClaims reports whether two valid tokens differ at most in the time of their signature.
func equalClaims(a, b string) bool {
	x, errX := claimsOf(a)
	y, errY := claimsOf(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// claimsOf returns the claims of a token without the time of the signature and the checksum.
func claimsOf(token string) ([]byte, error) {
	c, err := jwt.Decode(token)
	if err != nil {
		return nil, err
	}
	c.Claims().IssuedAt, c.Claims().ID = 0, ""
	return json.Marshal(c)
}
