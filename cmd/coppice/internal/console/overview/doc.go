// Package overview says what needs attention in a realm: its deletions, what is stuck and what ends that, finalizers and
// their programs, warnings and disks. The console's server builds it for the browser from the mirror of the realm's graph,
// which it does not change, and from what the client of the user reads.
//
// Each part is read for at most 5 s, all at once, and seldom enough that many tabs cost no more than one. A part that
// cannot be read is named in Missing; the others are there all the same. What is stuck is derived from what could be
// read: without the consumers, an object counts as stuck when it has waited for 10 minutes.
package overview
