// Package changes says in words what happened to an object: its deletion first, then
// its owners and finalizers, and last its contents.
package changes
