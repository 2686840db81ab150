package natsjwt

import (
	"context"
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
	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/internal/bus"
)

// Subjects of the system account.
const (
	pingSubject   = "$SYS.REQ.SERVER.PING"
	updateSubject = "$SYS.REQ.CLAIMS.UPDATE"
	deleteSubject = "$SYS.REQ.CLAIMS.DELETE"
)

// Answer is what a server says about an account.
type Answer struct {
	Server, Account, Message string
	// Failed: the server has not taken the account.
	Failed bool
}

// Push is a push of the accounts of a directory to the servers that run.
type Push struct {
	// Conn is a connection of a user of the system account.
	Conn *nats.Conn
	Dir  string
	// Timeout is how long to wait for the answers of all servers about an account.
	Timeout time.Duration
	// DeleteRemoved also deletes the accounts of actors that were removed from the servers, and the tokens
	// that replace them from the directory.
	DeleteRemoved bool
	// Report gets each answer.
	Report func(Answer)
}

// ErrNotSystem is returned for a connection that is not one of the system account, or to servers without accounts by JWT.
var ErrNotSystem = errors.New("no server answers in the system account")

// server is a server that runs.
type server struct{ id, name string }

// Run pushes. The core account comes first, so that what it exports is there when an account imports it; then
// those of actors, and last those that were removed. It returns an error unless each server has
// taken each account.
func (p *Push) Run(ctx context.Context) error {
	accounts, err := readAccounts(filepath.Join(p.Dir, AccountsFile))
	if err != nil {
		return fmt.Errorf("%w; write the accounts first: coppice nats-config --jwt", err)
	}
	servers, err := p.servers(ctx)
	if err != nil {
		return err
	}
	s := &store{dir: p.Dir}
	for _, name := range append([]string{SystemAccount, bus.CoreAccount}, slices.Sorted(maps.Keys(accounts))...) {
		token, err := os.ReadFile(s.accountToken(name))
		if err != nil {
			return err
		}
		if err := p.ask(ctx, servers, updateSubject, name, token); err != nil {
			return err
		}
	}
	removed, err := os.ReadDir(filepath.Dir(s.removedToken("")))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	gone := make([]string, 0, len(removed))
	for _, file := range removed {
		public, ok := strings.CutSuffix(file.Name(), ".jwt")
		if !ok {
			continue
		}
		claims, err := decoded(s.removedToken(public))
		if err != nil {
			return err
		}
		token, err := os.ReadFile(s.removedToken(public))
		if err != nil {
			return err
		}
		if err := p.ask(ctx, servers, updateSubject, claims.Claims().Name+", removed", token); err != nil {
			return err
		}
		gone = append(gone, public)
	}
	if !p.DeleteRemoved || len(gone) == 0 {
		return nil
	}
	return p.delete(ctx, s, servers, gone)
}

// delete deletes accounts from the servers, and then their files.
func (p *Push) delete(ctx context.Context, s *store, servers []server, accounts []string) error {
	about, err := decoded(s.operatorToken())
	if about == nil || err != nil {
		return errors.Join(fmt.Errorf("%s has no operator", s.dir), err)
	}
	public := about.Claims().Subject
	operator, err := s.readKey(public)
	if err != nil {
		return err
	}
	c := jwt.NewGenericClaims(public)
	c.Data["accounts"] = accounts
	request, err := c.Encode(operator)
	if err != nil {
		return err
	}
	if err := p.ask(ctx, servers, deleteSubject, strings.Join(accounts, ", "), []byte(request)); err != nil {
		return fmt.Errorf("%w; the accounts stay there without permissions", err)
	}
	for _, account := range accounts {
		if err := os.Remove(s.removedToken(account)); err != nil {
			return err
		}
	}
	return nil
}

// reply is what servers answer.
type reply struct {
	Server struct {
		Name string `json:"name"`
		ID   string `json:"id"`
	} `json:"server"`
	Data  struct{ Message string } `json:"data"`
	Error *struct {
		Description string `json:"description"`
	} `json:"error"`
	Stats struct {
		ActiveServers int `json:"active_servers"`
	} `json:"statsz"`
}

// servers returns the servers that run, in the order of their names.
func (p *Push) servers(ctx context.Context) ([]server, error) {
	found := map[string]server{}
	want := 1
	err := p.request(ctx, pingSubject, nil, func(r reply) bool {
		found[r.Server.ID] = server{r.Server.ID, r.Server.Name}
		want = max(want, r.Stats.ActiveServers)
		return len(found) >= want
	})
	if errors.Is(err, context.DeadlineExceeded) && len(found) > 0 {
		return nil, fmt.Errorf("%d of %d NATS servers answer within %s", len(found), want, p.Timeout)
	}
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrPermissionViolation) || errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("%w: connect as the user %s, whose credentials are in %s, to servers that include %s", ErrNotSystem, SystemUser, CredsFile(p.Dir, SystemUser), ResolverFile)
	}
	if err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Values(found), func(a, b server) int { return strings.Compare(a.name+a.id, b.name+b.id) }), nil
}

// ask sends a request about an account to all servers, and reports their answers.
func (p *Push) ask(ctx context.Context, servers []server, subject, account string, data []byte) error {
	answered := map[string]bool{}
	var refused []string
	missing := func() []string {
		var names []string
		for _, s := range servers {
			if !answered[s.id] {
				names = append(names, s.name)
			}
		}
		return names
	}
	err := p.request(ctx, subject, data, func(r reply) bool {
		if answered[r.Server.ID] {
			return false
		}
		answered[r.Server.ID] = true
		a := Answer{Server: r.Server.Name, Account: account, Message: r.Data.Message}
		if r.Error != nil {
			a.Message, a.Failed = r.Error.Description, true
			refused = append(refused, fmt.Sprintf("%s: %s", r.Server.Name, r.Error.Description))
		}
		p.Report(a)
		return len(missing()) == 0
	})
	switch {
	case len(refused) > 0:
		return fmt.Errorf("account %s is refused: %s", account, strings.Join(refused, "; "))
	case errors.Is(err, nats.ErrNoResponders) || errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("account %s: no answer within %s from %s; their configuration must include %s, which has a resolver of the type full", account, p.Timeout, strings.Join(missing(), ", "), ResolverFile)
	case err != nil:
		return fmt.Errorf("account %s: %w", account, err)
	}
	return nil
}

// askAgain is the time without a reply after which a request is sent again: a server that has just joined its cluster may not
// have received it. Servers answer a repeated request, too.
const askAgain = time.Second

// request sends a request to all servers, and calls got with each reply until it returns true. It sends the request again
// while replies are missing.
func (p *Push) request(ctx context.Context, subject string, data []byte, got func(reply) (enough bool)) error {
	limited, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	inbox := p.Conn.NewInbox()
	sub, err := p.Conn.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	send := func() error {
		if err := p.Conn.PublishRequest(subject, inbox, data); err != nil {
			return err
		}
		if err := p.Conn.FlushWithContext(limited); err != nil {
			return err
		}
		if err := p.Conn.LastError(); errors.Is(err, nats.ErrPermissionViolation) {
			return err // of the publication, as of no other message
		}
		return nil
	}
	if err := send(); err != nil {
		return err
	}
	for {
		m, err := sub.NextMsg(askAgain)
		if errors.Is(err, nats.ErrTimeout) && limited.Err() == nil {
			if err := send(); err != nil {
				return err
			}
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if limited.Err() != nil {
			return limited.Err()
		}
		if err != nil && !errors.Is(err, nats.ErrNoResponders) {
			return err
		}
		if m == nil {
			return nats.ErrNoResponders
		}
		if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
			return nats.ErrNoResponders
		}
		var r reply
		if err := json.Unmarshal(m.Data, &r); err != nil {
			return fmt.Errorf("the reply to %s is not what a NATS server writes: %w", subject, err)
		}
		if got(r) {
			return nil
		}
	}
}
