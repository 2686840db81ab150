// Package plan shows and stores what a deletion would do, as `coppice plan delete` does.
//
// A [Request] is what a plan is of: objects of several kinds and namespaces, which are deleted in
// one commit. A [Writer] writes a plan for people, [JSONOf] returns it for programs, and a [File]
// keeps the deletions and their plan for review.
package plan
