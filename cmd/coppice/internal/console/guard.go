package console

import (
	"net"
	"net/http"
	"net/url"
	"strings"
)

// policy is the Content-Security-Policy of every reply: code and styles are files of this server, and no page of another
// server shows this one in a frame.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// origins are the addresses under which browsers reach the server.
type origins struct {
	hosts  map[string]bool // HOST:PORT, or HOST for the default port
	secure bool            // browsers use HTTPS
}

// originsOf returns those of a server that listens on an address, or that people reach by a URL, if there is one.
func originsOf(listens net.Addr, public *url.URL, secure bool) origins {
	if public != nil {
		o := origins{hosts: map[string]bool{}, secure: public.Scheme == "https"}
		o.hosts[o.canonical(public.Host)] = true
		return o
	}
	o := origins{hosts: map[string]bool{}, secure: secure}
	host, port, err := net.SplitHostPort(listens.String())
	if err != nil {
		return o
	}
	for _, name := range []string{host, "localhost"} { // it listens on the loopback interface
		o.hosts[o.canonical(net.JoinHostPort(name, port))] = true
	}
	return o
}

// canonical returns a host in lower case, without the port that the scheme has.
func (o origins) canonical(host string) string {
	port := ":80"
	if o.secure {
		port = ":443"
	}
	return strings.TrimSuffix(strings.ToLower(host), port)
}

// guard refuses requests to other hosts, which DNS rebinding causes, and requests of pages of other servers, and sets the
// headers with which browsers protect a page.
func (o origins) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
		if o.secure {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		if !o.hosts[o.canonical(r.Host)] {
			refuse(w, http.StatusMisdirectedRequest, "BadRequest", "this console is not served under the name "+clip(r.Host)+"; open the address that it printed when it started, or name yours with --url")
			return
		}
		if strings.HasPrefix(r.URL.Path, apiPrefix) && !o.own(r) {
			refuse(w, http.StatusForbidden, "Forbidden", "the request comes from a page of another server")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// own reports whether a request comes from a page of this server. Browsers send Origin with every request that can
// change something, and with those that open a WebSocket, which change the method to that of a GET.
func (o origins) own(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin":
	case "none": // a person typed the address
		if changes(r) {
			return false
		}
	default:
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return !changes(r)
	}
	u, err := url.Parse(origin)
	scheme := "http"
	if o.secure {
		scheme = "https"
	}
	return err == nil && u.Scheme == scheme && o.canonical(u.Host) == o.canonical(r.Host)
}

// changes reports whether a request can change something, or opens a WebSocket.
func changes(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead || r.Header.Get("Upgrade") != ""
}

// clip bounds a text of a request that an error repeats.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
