package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"strings"
	"sync"
	"time"
)

// The limits of sessions.
const (
	maxSessions = 1000 // of all users; beyond it, a sign-in is refused
	maxOfUser   = 20   // of one user; beyond it, a sign-in ends the session that was used least recently
	maxTabs     = 50   // of one session: its WebSockets
	// maxAge is the longest time of a session.
	maxAge = 24 * time.Hour
)

// session is that of a browser in which a user is signed in.
type session struct {
	id   [sha256.Size]byte // the hash of the cookie
	csrf string
	user *user
	// ctx ends with the session.
	ctx    context.Context
	cancel context.CancelFunc
	idle   *time.Timer
	last   time.Time     // when it was used
	tabs   chan struct{} // a place for each
}

// sessions are those of all browsers, by the hash of their cookie: memory has nothing with which a browser signs in.
type sessions struct {
	idleTime time.Duration
	cookie   string // its name
	secure   bool

	mu     sync.Mutex
	all    map[[sha256.Size]byte]*session
	closed bool
}

// newSessions returns no sessions. The name of the cookie has the port, because browsers send cookies to all ports of a host.
func newSessions(idle time.Duration, port string, secure bool) *sessions {
	s := &sessions{idleTime: idle, secure: secure, all: map[[sha256.Size]byte]*session{}}
	s.cookie = "coppice-" + port
	if secure {
		s.cookie = "__Host-coppice-" + port
	}
	return s
}

// secret returns 256 random bits.
func secret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// begin begins a session of a user, and sets its cookie. The session releases the user when it ends. It returns nil if
// there are too many sessions, or if the server stops.
func (s *sessions) begin(w http.ResponseWriter, u *user) *session {
	id := secret()
	n := &session{id: sha256.Sum256([]byte(id)), csrf: secret(), user: u, tabs: make(chan struct{}, maxTabs)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.all) >= maxSessions {
		return nil
	}
	s.makeRoom(u)
	n.last = time.Now()
	n.ctx, n.cancel = context.WithTimeout(u.ctx, maxAge)
	n.idle = time.AfterFunc(s.idleTime, n.cancel)
	s.all[n.id] = n
	context.AfterFunc(n.ctx, func() { s.forget(n) })
	http.SetCookie(w, s.cookieOf(id, 0))
	return n
}

// makeRoom ends a session of a user who has too many. s.mu is held.
func (s *sessions) makeRoom(u *user) {
	var oldest *session
	of := 0
	for _, n := range s.all {
		if n.user != u {
			continue
		}
		if of++; oldest == nil || n.last.Before(oldest.last) {
			oldest = n
		}
	}
	if of >= maxOfUser {
		delete(s.all, oldest.id)
		oldest.cancel()
	}
}

func (s *sessions) cookieOf(value string, maxAge int) *http.Cookie {
	return &http.Cookie{Name: s.cookie, Value: value, Path: "/", HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteStrictMode, MaxAge: maxAge} //nolint:gosec // without TLS it cannot be Secure
}

func (s *sessions) forget(n *session) {
	n.idle.Stop()
	n.cancel()
	s.mu.Lock()
	delete(s.all, n.id)
	s.mu.Unlock()
	n.user.release()
}

// of returns the session of a request, nil if it has none or if it has ended.
func (s *sessions) of(r *http.Request) *session {
	c, err := r.Cookie(s.cookie)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.all[sha256.Sum256([]byte(c.Value))]
	if n == nil || n.ctx.Err() != nil {
		return nil
	}
	return n
}

// used begins the time again after which an idle session ends. Requests that a page sends by itself, without its user,
// say so, and pages open WebSockets by themselves.
func (s *sessions) used(n *session, r *http.Request) {
	if r.Header.Get(backgroundHeader) != "" || r.Header.Get("Upgrade") != "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n.last = time.Now()
	n.idle.Reset(s.idleTime)
}

// end ends a session, and removes its cookie.
func (s *sessions) end(w http.ResponseWriter, n *session) {
	n.cancel()
	http.SetCookie(w, s.cookieOf("", -1))
}

// close ends all sessions. No other begins.
func (s *sessions) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, n := range s.all {
		n.cancel()
	}
}

// count is the number of sessions.
func (s *sessions) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// Headers of requests.
const (
	csrfHeader       = "Coppice-Csrf"
	backgroundHeader = "Coppice-Background"
)

// forged reports whether a request that changes something lacks the token of its session, which pages of other servers
// cannot read.
func (n *session) forged(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead &&
		subtle.ConstantTimeCompare([]byte(strings.TrimSpace(r.Header.Get(csrfHeader))), []byte(n.csrf)) != 1
}
