// Package deletion has the commands that delete objects, and what goes with them: [DeleteCommand], [PlanCommand], which
// shows what a deletion would do, and [RestoreCommand], which undoes one.
//
// A delete or a plan begins with victims: what the arguments, flags and files of the command select. --plan-file and
// [RestoreCommand] select none. A deletion sends the requests. With --wait, package tree finds out what the deletion will
// remove, from what the verb resolve shows, and a removal looks until these objects are gone, as [Await] does for other
// commands.
package deletion
