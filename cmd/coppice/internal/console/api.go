package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/internal/rpc"
)

// apiPrefix is that of all paths that are not pages.
const apiPrefix = "/api/"

// routes lists what browsers can ask for.
func (s *Server) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/session", s.readSession)
	mux.HandleFunc("POST /api/session", s.beginSession)
	mux.HandleFunc("DELETE /api/session", s.signedIn(s.endSession))
	mux.HandleFunc("GET /api/live", s.signedIn(s.live))
	mux.HandleFunc("GET /api/realms/{realm}/overview", s.about((*realm).overviewPage))
	mux.HandleFunc("GET /api/realms/{realm}/kinds", s.about((*realm).kindsPage))
	mux.HandleFunc("GET /api/realms/{realm}/family", s.about((*realm).familyPage))
	mux.HandleFunc("GET /api/realms/{realm}/search", s.about((*realm).searchPage))
	mux.HandleFunc("GET /api/realms/{realm}/next", s.about((*realm).nextPage))
	mux.HandleFunc("GET /api/realms/{realm}/history", s.about(searching((*realm).historyPage)))
	mux.HandleFunc("GET /api/realms/{realm}/events", s.about(searching((*realm).eventsPage)))
	mux.HandleFunc("GET /api/realms/{realm}/cascade", s.about(searching((*realm).cascadePage)))
	mux.HandleFunc("GET /api/realms/{realm}/objects/{resource}/{namespace}/{name}", s.about((*realm).objectPage))
	mux.HandleFunc("GET /api/realms/{realm}/rights", s.about((*realm).rightsPage))
	mux.HandleFunc("GET /api/realms/{realm}/plan/{resource}/{namespace}/{name}", s.about((*realm).planPage))
	mux.HandleFunc("GET /api/realms/{realm}/below/{id}", s.about((*realm).belowPage))
	mux.HandleFunc("POST /api/realms/{realm}/delete", s.about((*realm).deleteObject))
	mux.HandleFunc("GET /api/realms/{realm}/deletion", s.about((*realm).deletionPage))
	mux.HandleFunc("POST /api/realms/{realm}/finalizer", s.about((*realm).removeFinalizer))
	mux.HandleFunc("GET /api/realms/{realm}/parked", s.about((*realm).parkedPage))
	mux.HandleFunc("POST /api/realms/{realm}/parked", s.about((*realm).changeParked))
	mux.HandleFunc("POST /api/realms/{realm}/resume", s.about((*realm).resume))
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, "NotFound", "the console has no "+r.Method+" "+clip(r.URL.Path))
	})
}

const sessionEnded = "you are not signed in, or your session has ended; sign in again"

// signedIn serves requests that have a session. Those that change something must have its token.
func (s *Server) signedIn(serve func(http.ResponseWriter, *http.Request, *session)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n := s.sessions.of(r)
		switch {
		case n == nil:
			fail(w, signedOut(sessionEnded))
		case n.forged(r):
			refuse(w, http.StatusForbidden, "Forbidden", "the request lacks the token of the session; load the page again")
		default:
			s.sessions.used(n, r)
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			serve(w, r, n)
		}
	}
}

// about serves requests about a realm, whose replies are JSON.
func (s *Server) about(read func(*realm, context.Context, *http.Request) (any, error)) http.HandlerFunc {
	return s.signedIn(func(w http.ResponseWriter, r *http.Request, n *session) {
		var result any
		of, err := n.user.open(r.Context(), r.PathValue("realm"))
		if err == nil {
			result, err = read(of, r.Context(), r)
		}
		if err != nil && n.ctx.Err() != nil { // the connection was closed with the session
			err = signedOut(sessionEnded)
		}
		if err != nil {
			fail(w, err)
			return
		}
		reply(w, http.StatusOK, result)
	})
}

// failure is an error with the status of its reply.
type failure struct {
	status int
	view.Failure
}

func (f *failure) Error() string { return f.Message }

func badRequest(format string, args ...any) error {
	return &failure{http.StatusBadRequest, view.Failure{Reason: "BadRequest", Message: fmt.Sprintf(format, args...)}}
}

func signedOut(message string) error {
	return &failure{http.StatusUnauthorized, view.Failure{Reason: view.ReasonSignedOut, Message: message}}
}

// notAccepted is the error of an attempt to sign in.
func notAccepted(message string) error {
	return &failure{http.StatusUnauthorized, view.Failure{Reason: "Unauthorized", Message: message}}
}

// failureOf returns what a browser receives about an error.
func failureOf(err error) *failure {
	var f *failure
	var e *client.Error
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &e):
		f := view.Failure{Reason: string(e.Reason), Message: err.Error(), Retry: rpc.Retryable(err)}
		for _, c := range e.Causes {
			f.Causes = append(f.Causes, causeText(c))
		}
		return &failure{statusOf(e), f}
	case errors.Is(err, context.DeadlineExceeded):
		return &failure{http.StatusGatewayTimeout, view.Failure{Reason: string(client.ErrTimeout), Message: "no reply in time: " + err.Error(), Retry: true}}
	}
	return &failure{http.StatusBadGateway, view.Failure{Reason: string(client.ErrInternalError), Message: err.Error()}}
}

// causeText returns a cause as a sentence, without a period.
func causeText(c client.Cause) string {
	switch {
	case c.Field == "":
		return c.Message
	case c.Message == "":
		return c.Field + ": " + c.Reason
	}
	return c.Field + ": " + c.Message
}

// statusOf returns the status for an error of the object API.
func statusOf(e *client.Error) int {
	switch e.Reason {
	case client.ErrBadRequest, client.ErrInvalid, client.ErrMethodNotAllowed:
		return http.StatusBadRequest
	case client.ErrForbidden:
		return http.StatusForbidden
	case client.ErrNotFound, client.ErrUnknownKind:
		return http.StatusNotFound
	case client.ErrConflict, client.ErrAlreadyExists:
		return http.StatusConflict
	case client.ErrExpired:
		return http.StatusGone
	case client.ErrRequestEntityTooLarge:
		return http.StatusRequestEntityTooLarge
	case client.ErrTooManyRequests:
		return http.StatusTooManyRequests
	case client.ErrServiceUnavailable:
		return http.StatusServiceUnavailable
	case client.ErrTimeout:
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}

// fail replies with an error.
func fail(w http.ResponseWriter, err error) {
	f := failureOf(err)
	reply(w, f.status, f.Failure)
}

// maxBody is the size of the body of a request, in bytes.
const maxBody = 64 << 10

// readBody reads the body of a request. what is what it should be.
func readBody(q *http.Request, what string, into any) error {
	d := json.NewDecoder(q.Body)
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil && d.More() {
		err = errors.New("it has more than one value")
	}
	if err != nil {
		return badRequest("the body is not that of %s: %v", what, err)
	}
	return nil
}

// refuse replies with an error of this server.
func refuse(w http.ResponseWriter, status int, reason, message string) {
	reply(w, status, view.Failure{Reason: reason, Message: message})
}

// reply sends a message.
func reply(w http.ResponseWriter, status int, message any) {
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(message) // the browser may be gone
}
