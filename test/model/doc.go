// Package model holds the services against a model of what they are to do: maps,
// and the rules of docs/semantics.md, without any of the code that it judges. Its
// tests draw scripts of commands and run them against real graph services,
// processors, finalizers and a scanner on a real JetStream, while services are
// restarted, come and go.
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
// model finds nothing left to do (L1 to L5, L7, L8). Then what the API tells of
// objects, of their owners' classes and of what is owed is held against the model
// (S11); and the outcome against those to which the model's own rules lead from
// what the last command left, in orders that are drawn (R1). When all scripts have
// ended, all work has to be acknowledged (L6), and the state to equal its log.
//
// Scripts run beside each other, each in two namespaces of its own; a kind may be
// its own as well. What they share are the cluster's kinds, the realm's options and
// the services: a script that changes or stops these does so to all.
//
//	make model OPS=2000000                            for hours
//	go test ./test/model -run TestScripts -script=f   a script that a failure printed
//
// # What is drawn
//
// Commands of every verb, with owners that are right, wrong in each way, repeated,
// in circles or their own; finalizers, built-in, external, and one that is
// answered; preconditions, old resourceVersions, dry runs, repeated commands, two
// commands at once; initializers; grace periods, with and without an agent; kinds
// that observe generations, that come and go; namespaces that go; imports in any
// order; options of the realm; work and proposals that nothing calls for; services
// that stop, start, and make their state anew.
//
// # What is not
//
//   - The model takes the answer's code or reason. Messages, warnings, and details
//     of refusals are for the tests of lifecycle and api.
//   - Batches of several objects, atomic ones, and those that take more than one
//     commit; owners and objects by the thousand; watches. A plan is asked for, so
//     that it is shown to change nothing; what it says is for the plan's own tests.
//   - Names, labels and JSON that are invalid in themselves: a finalizer stands for all.
//   - Processes that are killed, and a NATS that fails, are in test/chaos.
//   - Settling may take the scanner, which walks several times a second here. What
//     only it finds is counted, as "settled slowly", and is not an error.
//   - Where an outcome depends on who is first, it has to be one to which the rules
//     lead. Only where the orders that were drawn all agree is it one outcome. An
//     outcome is not held against them if time or the realm's options came between.
//   - R4, that only the last policy counts, has a script of its own; apart from that
//     it is part of R1: what is left is done from the state of the last DELETE.
package model
