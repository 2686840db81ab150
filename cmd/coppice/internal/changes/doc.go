// Package changes says in words what happened to an object: first to its initializers, its
// deletion and its finalizers, then to its owners, and last to its body.
package changes
