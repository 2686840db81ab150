// Package restore undoes deletions: it creates the objects again that a cascade has removed, under
// new uids, and gives the objects that survived it their references back.
//
// [Prepare] reads the log, the past and the present of a realm, and returns a plan, which changes
// nothing. [Plan.Run] carries it out as one import session. The actor needs the verbs readlog,
// readpast, get, list, resolve and restore.
package restore
