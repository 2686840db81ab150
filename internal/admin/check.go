package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
)

// Health is what a service replies to a health check.
type Health struct {
	// Service is the name of the service.
	Service string
	// Waiting is what the service waits for; "" if it is ready.
	Waiting string
}

var (
	// ErrNothingListens is the error of Check if no program listens at the address.
	ErrNothingListens = errors.New("no program listens there")
	// ErrNotCoppice is the error of Check if another program replies.
	ErrNotCoppice = errors.New("the program that listens there is not a service of Coppice, or is one of an earlier version, whose /readyz has the status 200 when it is ready")
)

// maxReason is the longest text of a service that waits, in bytes.
const maxReason = 64 << 10

// direct returns a client that uses no proxy, keeps no connection and follows no redirection.
func direct() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Check asks a service whether it is ready. base is the URL of its HTTP server, without a path. The error is
// ErrNothingListens, ErrNotCoppice, or that of the request, for example of ctx.
func Check(ctx context.Context, base *url.URL) (h Health, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("readyz").String(), http.NoBody)
	if err != nil {
		return Health{}, err
	}
	reply, err := direct().Do(r)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return Health{}, ErrNothingListens
	}
	if err != nil {
		return Health{}, err
	}
	defer func() { err = errors.Join(err, reply.Body.Close()) }()
	h = Health{Service: reply.Header.Get(ServiceHeader)}
	if h.Service == "" {
		return Health{}, ErrNotCoppice
	}
	switch reply.StatusCode {
	case http.StatusOK:
		return h, nil
	case http.StatusServiceUnavailable:
		text, err := io.ReadAll(io.LimitReader(reply.Body, maxReason))
		if err != nil {
			return Health{}, err
		}
		h.Waiting = strings.TrimSpace(string(text))
		return h, nil
	}
	return Health{}, fmt.Errorf("%s replies %s", base, reply.Status)
}
