package console

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
)

// Login is how a user signs in: with a name and a password, or with the text of a credentials file. The zero Login is
// that of the local user.
type Login struct{ User, Password, Credentials string }

// user is a user who is signed in, in one browser or several. Its connection and its mirrors are those of all of them.
type user struct {
	actor string
	nc    *nats.Conn
	// ctx ends when the last session has ended, or when NATS does not accept the user any more.
	ctx    context.Context
	cancel context.CancelFunc
	// lost says why NATS cannot be reached; "" if it can.
	lost topic[string]
	all  *users
	key  [sha256.Size]byte

	planning *places
	searches *places
	// following has a place for each live view of events.
	following chan struct{}
	// graphs has one for each graph.
	graphs  chan struct{}
	finding *places // the next object in a state

	mu       sync.Mutex
	sessions int
	realms   map[string]*realm
}

// users are the users who are signed in, by their credentials.
type users struct {
	s      *Server
	secret []byte // of the keys, so that memory has no passwords

	plans plans

	mu  sync.Mutex
	all map[[sha256.Size]byte]*user
}

func newUsers(s *Server) *users {
	u := &users{s: s, secret: make([]byte, sha256.Size), all: map[[sha256.Size]byte]*user{}}
	_, _ = rand.Read(u.secret) // never fails
	return u
}

// signIn connects a user to NATS, which checks the credentials each time. The result must be released, unless a session
// does that.
func (us *users) signIn(ctx context.Context, l Login) (*user, error) {
	u := &user{
		all: us, key: us.keyOf(l), sessions: 1, realms: map[string]*realm{},
		planning: newPlaces("plan deletions", us.s.planning, userPlansAtOnce), searches: newPlaces("search the log", us.s.searches, searchesOfUser), following: make(chan struct{}, maxEventViews),
		graphs: make(chan struct{}, maxGraphsOfUser), finding: newPlaces("look for the next object in a state", us.s.finding, 1),
	}
	u.lost.init("")
	u.ctx, u.cancel = context.WithCancel(us.s.ctx)
	var err error
	u.nc, u.actor, err = us.s.c.Connect(ctx, l,
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			why := "the connection to NATS is lost"
			if err != nil {
				why += ": " + err.Error()
			}
			u.lost.set(why)
		}),
		nats.ReconnectHandler(func(*nats.Conn) { u.lost.set("") }),
		nats.ClosedHandler(func(*nats.Conn) { u.cancel() }),               // also when NATS has refused the user twice
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // a request that is refused returns the reason
	)
	if err != nil {
		u.cancel()
		return nil, err
	}
	us.mu.Lock()
	defer us.mu.Unlock()
	if same := us.all[u.key]; same != nil && same.retain() {
		u.nc.Close()
		return same, nil
	}
	us.all[u.key] = u
	context.AfterFunc(u.ctx, func() {
		us.mu.Lock()
		if us.all[u.key] == u {
			delete(us.all, u.key)
		}
		us.mu.Unlock()
		u.nc.Close()
	})
	return u, nil
}

func (us *users) keyOf(l Login) (key [sha256.Size]byte) {
	h := hmac.New(sha256.New, us.secret)
	for _, part := range []string{l.User, l.Password, l.Credentials} {
		_, _ = h.Write([]byte(part + "\x00")) // none contains this
	}
	copy(key[:], h.Sum(nil))
	return key
}

// count is the number of users.
func (us *users) count() int {
	us.mu.Lock()
	defer us.mu.Unlock()
	return len(us.all)
}

// each calls f for each user.
func (us *users) each(f func(*user)) {
	us.mu.Lock()
	defer us.mu.Unlock()
	for _, u := range us.all {
		f(u)
	}
}

// retain adds a session. It returns false if the user has none any more.
func (u *user) retain() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.sessions == 0 || u.ctx.Err() != nil {
		return false
	}
	u.sessions++
	return true
}

// release removes a session. The last one closes the connection.
func (u *user) release() {
	u.mu.Lock()
	u.sessions--
	last := u.sessions == 0
	u.mu.Unlock()
	if last {
		u.cancel()
	}
}

// requestTime is how long a request of a page waits for replies of the graph service.
const requestTime = 5 * time.Second

// client returns a client of a realm.
func (u *user) client(realm string, opts ...client.Option) *client.Client {
	return client.New(u.nc, append([]client.Option{client.WithRealm(realm), client.WithActor(u.actor), client.WithTimeout(requestTime), client.WithRetryTimeout(requestTime)}, opts...)...)
}

// maxRealms is the number of realms that the console keeps for a user.
const maxRealms = 100

// open returns a realm that this user may read, whose objects may still be read.
func (u *user) open(ctx context.Context, name string) (*realm, error) {
	if err := bus.CheckRealm(clip(name)); err != nil {
		return nil, &client.Error{Reason: client.ErrBadRequest, Message: err.Error()}
	}
	u.mu.Lock()
	r, many := u.realms[name], len(u.realms) >= maxRealms
	u.mu.Unlock()
	if r != nil {
		err := r.check(ctx)
		if !r.replaced.Load() {
			return r, err
		}
		u.forget(r)
	}
	if many {
		return nil, &client.Error{Reason: client.ErrTooManyRequests, Message: fmt.Sprintf("the console shows at most %d realms to a user; sign out in all browsers and in again", maxRealms)}
	}
	r = newRealm(u, name)
	if err := r.check(ctx); err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if same := u.realms[name]; same != nil {
		return same, nil
	}
	u.realms[name] = r
	return r, nil
}

// forget drops what is known of a realm that was deleted: another one has its name, whose revisions begin again.
func (u *user) forget(r *realm) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.realms[r.name] == r {
		delete(u.realms, r.name)
	}
}
