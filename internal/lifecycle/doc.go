// Package lifecycle has the rules of Coppice: what a command does to an
// object, what the collector may do to it, and what has still to be done.
//
// Rules are pure functions. They read a View, one state of a realm at one
// revision, and answer with Events or with an *Error; they change nothing, do
// no I/O, and know neither clock nor randomness except as arguments. Whoever
// calls them applies the events (Event.After says what an event makes of an
// object) and writes them to the log.
//
// The way through the package:
//
//	object.go    Node and Object: what rules look at
//	kind.go      kinds, and the registry of them
//	options.go   the options of a realm
//	view.go      what a rule may read
//	event.go     what a rule answers
//	errors.go    how a rule refuses
//	validate.go  metadata that is refused or put right                A1, A2
//	create.go update.go patch.go import.go                            A1, A2
//	initializers.go  what has to be done before others see an object  A8
//	delete.go    DELETE: policy, finalizers, deletionTimestamp        A4, A5
//	contents.go  what is in a namespace or of a kind that is deleted   A5.7
//	finalizer.go removal of a finalizer                               A2.8, A2.10
//	classify.go  owner references: solid, waiting, dangling, unknown  A12.6, A16
//	judge.go     what the collector does with an object               A12
//	collect.go   the collector's commands, judged again               A12, A13, A15
//	delay.go     which dependents delay a deletion in the foreground  A13
//	cycle.go     objects that wait for each other                     A14
//	owed.go      what is owed to whom                                 A10, A13, A15
//
// Ids such as A12.6 are the behaviours of docs/semantics.md.
//
// The graph service's writer calls the rules to decide, its replicas call
// Event.After to replay, and processors call Decide to propose; so there is one
// place where each rule is stated.
package lifecycle
