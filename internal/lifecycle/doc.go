// Package lifecycle implements the rules of Coppice: what a command does to an object,
// what the collector may do to it, and which work is pending because of it.
//
// Rules are pure functions. They read a View, which is the state of a realm at one
// revision, and return Events or an *Error. They change nothing, do no I/O, and get time
// and randomness as arguments. The caller writes the events to the log and applies them
// (Event.After returns the object after an event).
//
// The files, in the order to read them:
//
//	object.go    Node and Object: the input of rules
//	kind.go      kinds, and the registry of them
//	settings.go  realm settings
//	view.go      what a rule may read
//	event.go     what a rule returns
//	errors.go    how a rule refuses
//	validate.go  metadata that is refused or corrected                A1, A2
//	create.go update.go patch.go import.go                            A1, A2
//	initializers.go  objects that are hidden until they are complete  A8
//	delete.go    DELETE: policy, finalizers, deletionTimestamp        A4, A5
//	contents.go  contents of a namespace or kind that is deleted      A5.7
//	finalizer.go removal of a finalizer                               A2.8, A2.10
//	classify.go  owner references: solid, waiting, dangling, unknown  A12.6, A16
//	evaluate.go  the collector's decision on an object                A12
//	collect.go   the collector's commands, evaluated again            A12, A13, A15
//	delay.go     which dependents delay a deletion in the foreground  A13
//	cycle.go     objects that wait for each other                     A14
//	pending.go   pending work                                         A10, A13, A15
//
// Ids such as A12.6 name the rules of docs/semantics.md.
//
// Each rule is implemented once: the graph service's writer calls the rules to decide
// commands, its replicas call Event.After to replay, and processors call Decide to
// propose.
package lifecycle
