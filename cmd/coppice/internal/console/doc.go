// Package console serves the web console: the pages of the directory console, and what they ask for.
//
//	browser tabs ── HTTP, one WebSocket each ── Server ── one connection per user ── NATS
//
// A [Server] is a client of realms with the rights of the people who are signed in, and has none of its own: NATS and
// the users file decide what each may read and change. It stores nothing. A restart ends all sessions.
//
// Who calls it: `coppice console`, and `coppice up`.
//
//   - guard.go refuses requests that the console's own pages did not send.
//   - sessions.go and signin.go have the sessions of browsers, users.go the users and their connections.
//   - realms.go has a mirror for each user and realm that a page needs, live.go sends news to browsers.
//   - graphlive.go follows a graph for a page: the package chart makes pictures of the mirror, graphframe.go sends what differs.
//   - api.go lists what browsers can ask for; the messages are in the package view.
//
// All methods are safe for concurrent use.
package console
