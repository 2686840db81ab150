// Package deletion has the commands that delete objects, and what goes with them: [DeleteCommand], [PlanCommand], which
// shows what a deletion would do, and [RestoreCommand], which undoes one.
//
// All begin with victims: what the arguments, flags and files of a command select. A deletion sends the requests;
// a removal waits until objects are gone, as [Await] does for other commands.
package deletion
