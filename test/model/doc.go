// Package model holds the services against a model of what they are to do: a few
// hundred lines over maps, written from docs/semantics.md, without any of the
// code that it judges. Its tests draw scripts of commands, which they run against
// a real graph service, processors, finalizers and a scanner on a real JetStream,
// while services are restarted, come and go.
//
//	script ──► commands ──► services ──► log ──► auditor: folds it into the model, and
//	   │                                           │      holds each event against it
//	   └── answers, and what is there at rest ─────┘
//
// The model does not guess who is first: the log says. Each event is held against
// the state just before it.
//
//	a command       has just the effects, and the answer, that the model decides
//	the collector   does what the model finds to be right at that state (S1, S2, S7, S8, S9)
//	any event       breaks none of what holds always (S3 to S6, S10, S14)
//	nothing else    is in the log: no dry run, no no-op, nothing twice (S12, S13, S15)
//
// At the end of a script, and where it says "settle", the test waits until the
// model finds nothing left to do (L1 to L5, L7, L8), and then holds what the API
// tells against it (S11), and the outcome against those to which the model's own
// rules lead from what the last command left, in whatever order (R1).
package model
