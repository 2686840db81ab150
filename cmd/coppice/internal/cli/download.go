package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// maxDownload is the maximum size of a file that is read from a URL.
	maxDownload = 10 << 20
	// downloadTimeout is how long reading it may take.
	downloadTimeout = 30 * time.Second
	maxRedirects    = 10
)

// isURL reports whether a name of a file is a URL.
func isURL(name string) bool {
	return strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://")
}

// download reads a file from a URL, and returns the URL without its password as its name.
func download(ctx context.Context, from string) (name string, data []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return "", nil, err
	}
	name = request.URL.Redacted()
	reply, err := (&http.Client{CheckRedirect: checkRedirect}).Do(request)
	if err != nil {
		return "", nil, err // has the method and the URL
	}
	defer func() { _ = reply.Body.Close() }() // it was read only
	if reply.StatusCode != http.StatusOK {
		return "", nil, fmt.Errorf("%s: the server replied %s", name, reply.Status)
	}
	data, err = io.ReadAll(io.LimitReader(reply.Body, maxDownload+1))
	switch {
	case err != nil:
		return "", nil, fmt.Errorf("%s: %w", name, err)
	case len(data) > maxDownload:
		return "", nil, fmt.Errorf("%s: larger than %d MiB: save it as a file, and name that", name, maxDownload>>20)
	}
	return name, data, nil
}

// checkRedirect refuses a redirect that would read over a connection that is less secure than that
// of the URL which was given.
func checkRedirect(to *http.Request, via []*http.Request) error {
	switch {
	case via[0].URL.Scheme == "https" && to.URL.Scheme != "https":
		return fmt.Errorf("redirected to %s, which is not https: name it with -f, if it can be trusted", to.URL.Redacted())
	case len(via) >= maxRedirects:
		return errors.New("too many redirects")
	}
	return nil
}
