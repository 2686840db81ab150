package console

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

// Requests to other names, which DNS rebinding causes, and of pages of other servers are refused before anything reads them.
func TestGuard(t *testing.T) {
	t.Parallel()
	listens := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9450}
	local := originsOf(listens, nil, false)
	public := originsOf(&net.TCPAddr{IP: net.IPv4zero, Port: 8443}, &url.URL{Scheme: "https", Host: "Coppice.example.com"}, false)
	const same = "same-origin"
	for _, c := range []struct {
		of                         origins
		method, host, origin, site string
		upgrade                    bool
		status                     int
	}{
		{local, "GET", "127.0.0.1:9450", "", "", false, 200},
		{local, "GET", "localhost:9450", "", same, false, 200},
		{local, "GET", "127.0.0.1:9450", "", "none", false, 200},
		{local, "GET", "127.0.0.1:9450", "", "cross-site", false, 403},
		{local, "GET", "127.0.0.1:9450", "", "same-site", false, 403},
		{local, "GET", "evil.example.com:9450", "", "", false, 421},
		{local, "GET", "127.0.0.1", "", "", false, 421},
		{local, "GET", "127.0.0.1:9451", "", "", false, 421},
		{local, "GET", "", "", "", false, 421},
		{local, "POST", "127.0.0.1:9450", "http://127.0.0.1:9450", same, false, 200},
		{local, "POST", "127.0.0.1:9450", "http://127.0.0.1:9450", "", false, 200},
		{local, "POST", "127.0.0.1:9450", "", "", false, 403},
		{local, "POST", "127.0.0.1:9450", "http://127.0.0.1:9450", "none", false, 403},
		{local, "POST", "127.0.0.1:9450", "https://127.0.0.1:9450", same, false, 403},
		{local, "POST", "127.0.0.1:9450", "http://127.0.0.1:9451", "same-site", false, 403},
		{local, "POST", "127.0.0.1:9450", "http://localhost:9450", same, false, 403},
		{local, "POST", "127.0.0.1:9450", "null", "", false, 403},
		{local, "DELETE", "127.0.0.1:9450", "http://evil.example.com", "", false, 403},
		{local, "GET", "127.0.0.1:9450", "http://127.0.0.1:9450", same, true, 200},
		{local, "GET", "127.0.0.1:9450", "", "", true, 403},
		{local, "GET", "127.0.0.1:9450", "http://evil.example.com", "", true, 403},
		{public, "GET", "coppice.example.com", "", "", false, 200},
		{public, "POST", "coppice.example.com", "https://coppice.example.com", same, false, 200},
		{public, "POST", "coppice.example.com", "http://coppice.example.com", same, false, 403},
		{public, "GET", "127.0.0.1:8443", "", "", false, 421},
		{public, "GET", "COPPICE.example.com:443", "", "", false, 200},
		{public, "POST", "coppice.example.com:443", "https://coppice.example.com", same, false, 200},
		{public, "GET", "coppice.example.com:80", "", "", false, 421},
	} {
		r := httptest.NewRequest(c.method, "/api/session", http.NoBody)
		r.Host = c.host
		for name, value := range map[string]string{"Origin": c.origin, "Sec-Fetch-Site": c.site} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		if c.upgrade {
			r.Header.Set("Upgrade", "websocket")
		}
		w := httptest.NewRecorder()
		c.of.guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%s to %q, origin %q, Sec-Fetch-Site %q, upgrade %v: status %d, want %d", c.method, c.host, c.origin, c.site, c.upgrade, w.Code, c.status)
		}
		for name, value := range map[string]string{"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY"} {
			if w.Header().Get(name) != value {
				t.Errorf("status %d: the header %s is %q", w.Code, name, w.Header().Get(name))
			}
		}
	}
}

// A page can be opened from a link of another server, but not what it asks for.
func TestGuardLetsLinksIn(t *testing.T) {
	t.Parallel()
	o := originsOf(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9450}, nil, false)
	for path, status := range map[string]int{"/r/default": 200, "/api/session": 403} {
		r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
		r.Host = "127.0.0.1:9450"
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		w := httptest.NewRecorder()
		o.guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
		if w.Code != status {
			t.Errorf("%s from a link of another server: status %d, want %d", path, w.Code, status)
		}
	}
}
