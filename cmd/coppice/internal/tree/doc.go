// Package tree draws objects and how they depend on each other: a family, which the
// verb resolve returns, and a plan, which says what a deletion would do.
package tree
