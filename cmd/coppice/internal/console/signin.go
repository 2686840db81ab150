package console

import (
	"context"
	"crypto/subtle"
	"errors"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// signInLimits bound the attempts to sign in: guessing a password costs the NATS server a hash of bcrypt for each attempt.
type signInLimits struct {
	atOnce chan struct{}

	mu   sync.Mutex
	from map[string]*rate.Limiter // by the address of the client
}

// The limits of attempts to sign in.
const (
	signInsPerSecond = 1 // from one address
	signInBurst      = 20
	signInsAtOnce    = 4
	signInTime       = 10 * time.Second
	maxAddresses     = 10_000
)

func newSignInLimits() *signInLimits {
	return &signInLimits{atOnce: make(chan struct{}, signInsAtOnce), from: map[string]*rate.Limiter{}}
}

// take takes a place for an attempt from an address, which leave releases.
func (l *signInLimits) take(ctx context.Context, address string) (leave func(), err error) {
	busy := &failure{http.StatusTooManyRequests, view.Failure{Reason: "TooManyRequests", Message: "too many attempts to sign in; try again in a few seconds", Retry: true}}
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	if !l.of(address).Allow() {
		return nil, busy
	}
	select {
	case l.atOnce <- struct{}{}:
		return func() { <-l.atOnce }, nil
	case <-ctx.Done():
		return nil, busy
	}
}

// of returns the limiter of an address. Addresses from which no attempt came for a time are forgotten.
func (l *signInLimits) of(address string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.from) >= maxAddresses {
		maps.DeleteFunc(l.from, func(_ string, of *rate.Limiter) bool { return of.Tokens() >= signInBurst })
	}
	if len(l.from) >= maxAddresses {
		address = "" // the others share one
	}
	if l.from[address] == nil {
		l.from[address] = rate.NewLimiter(signInsPerSecond, signInBurst)
	}
	return l.from[address]
}

// readSession is GET /api/session.
func (s *Server) readSession(w http.ResponseWriter, r *http.Request) {
	n := s.sessions.of(r)
	if n == nil {
		reply(w, http.StatusUnauthorized, view.Ways{Local: s.c.Local, Version: s.c.Version})
		return
	}
	s.sessions.used(n, r)
	reply(w, http.StatusOK, s.describe(r.Context(), n))
}

// beginSession is POST /api/session.
func (s *Server) beginSession(w http.ResponseWriter, r *http.Request) {
	n, err := s.signIn(w, r)
	if err != nil {
		s.metrics.signIns.WithLabelValues("refused").Inc()
		fail(w, err)
		return
	}
	s.metrics.signIns.WithLabelValues("accepted").Inc()
	s.c.Log.Info("signed in", "actor", n.user.actor)
	reply(w, http.StatusOK, s.describe(r.Context(), n))
}

func (s *Server) signIn(w http.ResponseWriter, r *http.Request) (*session, error) {
	var in view.SignIn
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := readBody(r, "a sign-in", &in); err != nil {
		return nil, err
	}
	l, err := s.loginOf(&in)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), signInTime)
	defer cancel()
	leave, err := s.signIns.take(ctx, r.RemoteAddr)
	if err != nil {
		return nil, err
	}
	u, err := s.users.signIn(ctx, l)
	leave()
	if err != nil {
		return nil, signInFailure(err)
	}
	n := s.sessions.begin(w, u)
	if n == nil {
		u.release()
		return nil, &failure{http.StatusServiceUnavailable, view.Failure{Reason: "ServiceUnavailable", Message: "the console has no place for another session; sign out elsewhere, or try again later", Retry: true}}
	}
	if old := s.sessions.of(r); old != nil {
		old.cancel() // the browser has one session
	}
	return n, nil
}

// loginOf checks how a person signs in.
func (s *Server) loginOf(in *view.SignIn) (Login, error) {
	switch {
	case s.c.Local && subtle.ConstantTimeCompare([]byte(in.Token), []byte(s.token)) == 1:
		return Login{}, nil
	case s.c.Local:
		return Login{}, notAccepted("this address has no valid token; open the address that 'coppice up' printed when it started")
	case in.Credentials != "":
		return Login{Credentials: in.Credentials}, nil
	case in.User != "" && in.Password != "":
		return Login{User: in.User, Password: in.Password}, nil
	}
	return Login{}, badRequest("enter the name and the password of a NATS user, or choose a credentials file")
}

// ErrCredentials is returned by Config.Connect for credentials that no NATS server can accept.
var ErrCredentials = errors.New("this is not a credentials file: it has a JWT and a seed, as nsc writes them")

// ErrOpen is returned by Config.Connect for a NATS server that accepts any user.
var ErrOpen = errors.New("the NATS server asks for no password, so that the console cannot know who you are: give it users, as 'coppice nats-config' writes them, or use 'coppice up'")

func signInFailure(err error) error {
	switch {
	case errors.Is(err, ErrCredentials), errors.Is(err, ErrOpen):
		return badRequest("%v", err)
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked), errors.Is(err, nats.ErrAccountAuthExpired):
		return notAccepted("NATS refuses this user: the name, the password or the credentials are wrong, expired or revoked")
	}
	return &failure{http.StatusBadGateway, view.Failure{Reason: "ServiceUnavailable", Message: "the console cannot reach NATS: " + err.Error(), Retry: true}}
}

// endSession is DELETE /api/session.
func (s *Server) endSession(w http.ResponseWriter, _ *http.Request, n *session) {
	s.sessions.end(w, n)
	w.WriteHeader(http.StatusNoContent)
}

// describe returns what a browser knows of its session.
func (s *Server) describe(ctx context.Context, n *session) view.Session {
	return view.Session{
		User: n.user.actor, Local: s.c.Local, CSRF: n.csrf, Version: s.c.Version, IdleSeconds: int(s.c.Idle / time.Second),
		Realms: s.realmsOf(ctx, n.user),
	}
}

// realmsOf returns the realms that a user can open: those of the list, or else those of the configuration that the user
// may read.
func (s *Server) realmsOf(ctx context.Context, u *user) []view.Realm {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	list := []view.Realm{}
	all, err := u.client(bus.DefaultRealm).Operations().ListRealms(ctx)
	if err == nil {
		for _, r := range all {
			list = append(list, view.Realm{Name: r.GetName(), State: stateOf(r.GetState()), Writer: r.GetWriter(), Waiting: r.GetWaiting()})
		}
		return list
	}
	for _, name := range s.c.Realms {
		if err := u.client(name).Allowed(ctx, client.Permission{Verb: bus.VerbStatus}); !errors.Is(err, client.ErrForbidden) {
			list = append(list, view.Realm{Name: name})
		}
	}
	return list
}

func stateOf(s coppicev1.RealmState) string {
	switch s {
	case coppicev1.RealmState_REALM_STATE_ACTIVE:
		return "active"
	case coppicev1.RealmState_REALM_STATE_DELETING:
		return "deleting"
	case coppicev1.RealmState_REALM_STATE_DELETED:
		return "deleted"
	}
	return ""
}
