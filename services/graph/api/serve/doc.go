// Package serve has what the handlers of all requests share. A [Server] is a NATS micro service: it admits
// requests, decodes them, bounds how many are under way, and replies. [Writer] is a Server for
// what only the writer of a realm serves, and [Replica] one for what any replica does.
//
// A handler gets a [Request], and answers it or returns the error to reply with. A long one runs in
// [Server.Background] or, with a place of a limiter, in [Server.Within]. [Process] bounds the requests to all realms
// of a process, and limits.go has the limits of requests. A [Page] reads a list page by page.
package serve
