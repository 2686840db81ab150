package cli

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Manifests are read from a URL. A reply that cannot be all of a file is an error.
func TestDownload(t *testing.T) {
	t.Parallel()
	const manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/web.yaml":
			_, _ = w.Write([]byte(manifest))
		case "/moved":
			http.Redirect(w, r, "/web.yaml", http.StatusFound)
		case "/again":
			http.Redirect(w, r, "/again", http.StatusFound)
		case "/large":
			_, _ = w.Write(make([]byte, maxDownload+1))
		case "/short":
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte(manifest))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	for path, want := range map[string]string{
		"/web.yaml":  "",
		"/moved":     "",
		"/again":     "too many redirects",
		"/large":     "/large: larger than 10 MiB",
		"/short":     "unexpected EOF",
		"/none.yaml": "/none.yaml: the server replied 404 Not Found",
	} {
		entries, err := (&Session{}).ReadManifests(t.Context(), server.URL+path)
		switch {
		case want == "":
			if err != nil || len(entries) != 1 || entries[0].At.File != server.URL+path {
				t.Errorf("%s is read as %v, %v", path, entries, err)
			}
		case err == nil || !strings.Contains(err.Error(), want):
			t.Errorf("%s is read as %v, %v; want the error %s", path, entries, err, want)
		}
	}
	name, _, err := download(t.Context(), strings.Replace(server.URL, "//", "//ana:secret@", 1)+"/web.yaml")
	if err != nil || strings.Contains(name, "secret") {
		t.Errorf("its name is %s, %v", name, err)
	}
}

// A redirect does not lead from https to http.
func TestDownloadStaysSecure(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		from, to string
		ok       bool
	}{
		{"https://a.example/x", "http://a.example/x", false},
		{"https://a.example/x", "https://b.example/x", true},
		{"http://a.example/x", "https://a.example/x", true},
		{"http://a.example/x", "http://b.example/x", true},
	} {
		err := checkRedirect(httptest.NewRequest(http.MethodGet, tc.to, nil), []*http.Request{httptest.NewRequest(http.MethodGet, tc.from, nil)})
		if (err == nil) != tc.ok {
			t.Errorf("from %s to %s: %v", tc.from, tc.to, err)
		}
	}
}

// An interrupt ends a command that waits for its standard input.
func TestReadInterrupted(t *testing.T) {
	t.Parallel()
	waiting, input := io.Pipe()
	t.Cleanup(func() { _ = input.Close() })
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if _, err := (&Session{App: &App{Stdin: waiting}}).ReadManifests(ctx, stdin); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
