// Package model compares the services with a model of their behaviour: maps, and the rules
// of docs/semantics.md, without any of the code under test. Its tests generate random
// scripts of commands and run them against real graph services, processors, finalizers and
// a scanner on a real JetStream, while services are started, stopped and restarted.
//
//	script ──► commands ──► services ──► log ──► auditor: folds it into the model, and
//	   │                                           │      holds each event against it
//	   └── answers, and what is there at rest ─────┘
//
// The model takes the order of events from the log. It checks each event against the state
// just before it.
//
//	a command       has exactly the effects and the reply that the model decides
//	the collector   does what the model finds to be right at that state (S1, S2, S7, S8, S9)
//	any event       keeps the properties that are always true (S3 to S6, S10, S14)
//	nothing else    is in the log: no dry run, no no-op, nothing twice (S12, S13, S15)
//
// At the end of a script, and at its command "settle", the test waits until the model
// finds no pending work (L1 to L5, L7, L8). Then it compares the API's objects, the classes
// of their owners and the pending work with the model (S11), and the outcome with those
// that the model's own rules reach from the state after the last command, in random orders
// of work (R1). When all scripts have ended, all work must be acknowledged (L6), and the
// state must equal the fold of its log.
//
// Scripts run concurrently, each in two namespaces of its own; a kind may be its own as
// well. They share the cluster's kinds, the realm settings and the services: a script that
// changes or stops these does so for all.
//
//	make model OPS=2000000                            for hours
//	go test ./test/model -run TestScripts -script=f   a script that a failure printed
//
// # What is drawn
//
// Commands of every verb, with owners that are right, wrong in each way, repeated, in
// cycles or their own; finalizers, built-in, external, and one that is answered;
// preconditions, old resourceVersions, dry runs, repeated commands, two commands at once;
// initializers; grace periods, with and without an agent; kinds that observe generations,
// that are registered and withdrawn; namespaces that are deleted; imports in any order;
// realm settings; needless work messages and proposals; services that stop, start, and
// rebuild their state.
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
//     outcome is not held against them if time or the realm settings came between.
//   - R4, that only the last policy counts, has a script of its own; apart from that
//     it is part of R1: what is left is done from the state of the last DELETE.
package model
