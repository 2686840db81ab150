// Package cli is what the commands of coppice share.
//
// An [App] has the streams and the flags of a connection. Most commands run in a [Session], which
// [App.InSession] opens: a connection to a realm, with the kinds that the realm knows, at the present or
// at the point of the past that --at names. [Session.Targets] reads what a command line names,
// [Session.Entries] reads manifests, and [Session.Each] reads objects. [Session.Modify] changes objects one by one.
//
// A command returns a [UsageError] if it was called wrongly, and an [ExitError] for an exit code of its own.
// [Failures] counts what was refused while the command continued.
package cli
