// Package model compares the services with a model of their behaviour: maps, and the rules
// of docs/semantics.md, without any of the code under test. Its tests generate random
// scripts of commands and run them against real graph services, processors, finalizers and
// a scanner on a real JetStream, while services are started, stopped and restarted.
//
//	script ──► commands ──► services ──► log ──► auditor: folds it into the model, and
//	   │                                           │      checks each event against it
//	   └── replies, and the final objects ─────────┘
//
// The model takes the order of events from the log. It checks each event against the state
// just before it.
//
//	a command       has exactly the effects and the reply that the model decides
//	the collector   acts as the model allows at that state (S1, S2, S7, S8, S9)
//	any event       preserves the properties that are always true (S3 to S6, S10, S14)
//	the log         has no dry runs, no no-ops, and no command twice (S12, S13, S15)
//
// At the end of a script, and at its command "settle", the test waits until the model
// finds no pending work (L1 to L5, L7, L8). Then it compares the API's objects, the classes
// of their owners and the pending work with the model (S11), and the outcome with those
// that the model's own rules reach from the state after the last command, in random orders
// of work (R1). When all scripts have ended, all work must be acknowledged (L6), and the
// state must equal the fold of its log.
//
// Scripts run concurrently, each in two namespaces of its own; a script may also have a kind
// of its own. They share the other kinds, the realm settings and the services: a script that
// changes or stops these does so for all scripts.
//
//	make model OPS=2000000                            runs for hours
//	go test ./test/model -run TestScripts -script=f   runs a script that a failure printed
//
// # What is drawn
//
// Commands of every verb. Owners that are valid, invalid in each way, repeated, in cycles,
// or the object itself. Finalizers that are built-in, external, and external with a program
// that answers. Preconditions, old resourceVersions, dry runs, repeated commands, concurrent
// commands. Initializers. Grace periods, with and without an agent. Kinds that observe
// generations, and kinds that are registered and deleted. Namespaces that are deleted.
// Protections by clients and by policies. Uses of objects that exist or not, in cycles, and of
// owners by what they own. Brakes of kinds, and their releases. Objects that expire, by
// themselves and by policies. Restorations of what a deletion has removed. The log of each world
// is cut once, and all services start again.
// Imports in any order. Realm settings. Needless work messages and proposals. Services that
// stop, start, and rebuild their state.
//
// # What is not covered
//
//   - The model compares the code or reason of a reply. The tests of internal/lifecycle and
//     test/api compare messages, warnings and details of refusals.
//   - Batches of several objects, atomic batches, batches over several commits, thousands of
//     owners or objects, and watches are tested elsewhere. Plans are requested only to show
//     that they change nothing; the tests of services/graph/plan check their content.
//   - Invalid names, labels and JSON: one invalid finalizer represents them.
//   - Killed processes and failures of NATS: see test/chaos.
//   - Settling may need the scanner, which walks several times a second here. Work that only
//     the scanner finds is counted as "settled slowly", and is not an error.
//   - If an outcome depends on the order of work, it must be one that the rules reach in some
//     order. It must be a particular outcome only if all drawn orders agree. The outcome is
//     not compared if a timer or a change of the realm settings may have changed it.
//   - R4, that only the last policy counts, has a script of its own. Otherwise R1 covers it:
//     the remaining work is done from the state after the last DELETE.
package model
