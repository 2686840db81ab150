// Package lifecycle implements the rules of Coppice: what a command does to an object,
// what the collector may do to it, and which work is pending because of it.
//
// Rules are pure functions. They read a [View], which is the state of a realm at one
// revision, and return Events or an *[Error]. They change nothing, do no I/O, and get time
// and randomness as arguments. The caller writes the events to the log and applies them
// ([Event.After] returns the object after an event).
//
// The files, in the order to read them:
//
//	object.go    Node and Object: the input of rules
//	kind.go      kinds, and the registry of them; builtin.go has those of a new realm
//	settings.go  realm settings; retention.go reads sizes and ages
//	view.go      what a rule may read
//	event.go     what a rule returns
//	command.go   what a rule may know in addition: Context
//	errors.go    how a rule refuses; truncate.go shortens that
//	validate.go  metadata that is refused or corrected                A1, A2
//	json.go      JSON that is refused or corrected
//	create.go update.go patch.go apply.go import.go importcheck.go    A1, A2
//	ownercheck.go owners that do not keep the object that is written
//	blocking.go  owners whose deletion the actor may not block        B11
//	initializers.go  objects that are hidden until they are complete  A8
//	delete.go    DELETE: policy, finalizers, deletionTimestamp        A4, A5
//	grace.go     grace periods, and which objects need an agent       A4, A7
//	protect.go   objects that are not deleted                         B2
//	uses.go      objects that are removed before what they use        B3
//	podsfirst.go Pods of a namespace that is deleted                  A5.8
//	expire.go    objects that expire                                  B6
//	notice.go    notices that expiry policies give before a deletion  B6
//	policy.go    policies that protect objects by their labels        B2
//	contents.go  contents of a namespace or kind that is deleted      A5.7
//	finalizer.go removal of a finalizer by a client                   A2.8, A2.10
//	force.go     removal of a finalizer by an operator, by force
//	restore.go   objects that are created again                       B5
//	unreadable.go  objects whose body cannot be decoded               B8
//	realm.go     what the log records of the realm itself
//	classify.go  owner references: solid, waiting, dangling, unknown  A12.6, A16
//	claimed.go   references to one owner, in lists of any length
//	moved.go     owners whose kind has moved to another group
//	wide.go      objects with many references and finalizers
//	evaluate.go  the collector's decision on an object                A12
//	collect.go   the collector's commands, evaluated again            A12, A13, A15
//	delay.go     which dependents delay a deletion in the foreground  A13
//	brake.go     how many objects the collector may delete            B4
//	wait.go      which objects wait for which, through what           B3.9
//	cycle.go     objects that wait for each other; unreachable cycles A14
//	pending.go   pending work                                         A10, A13, A15
//	warning.go   reasons of warnings for operators
//
// Ids such as A12.6 name the rules of docs/semantics.md.
//
// Each rule is implemented once: the graph service's writer calls the rules to decide
// commands, its replicas call [Event.After] to replay, and processors call [Decide] to
// propose.
package lifecycle
