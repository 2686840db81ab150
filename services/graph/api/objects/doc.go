// Package objects handles the verbs of the object API. [Writer] has those that change objects, and the reads that
// include every command which was acknowledged before; it gives each command deciders (deciders.go) that call
// package lifecycle. [Replica] has the reads that any replica can answer. [Grants] are permissions for deletions
// with several parts.
//
// It imports package expiry, because a policy that cannot be evaluated is refused when it is written, and because what
// the release of a brake lets through, and the status of a realm, depend on expiry policies.
package objects
