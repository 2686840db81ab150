// Package oracle plays scripts of API requests against a server and prints what
// a client sees of the answers: code, reason, the fields that are wrong, and
// what became of the object. Wording is left out, and so is what differs from
// one run to the next.
//
// The scripts in testdata are played against two servers. The module test/oracle
// plays them against Kubernetes itself, which is how their outputs were recorded
// ("make oracle" records again). The tests of this package play them against the
// rules of internal/lifecycle, whose outputs have to be the same. Those in
// testdata/requests are about requests alone; for those in testdata/collector the
// garbage collector runs alongside.
//
// # Commands
//
// Scripts are in the format of package datadriven. A request is
//
//	create|update|update-status|patch|delete widgets/a ARGUMENT...
//
// where widgets are namespaced and racks are cluster-scoped. An update is read,
// change, write: what the arguments do not name stays as it is stored, the
// resourceVersion included. Arguments of objects are fields of metadata,
//
//	finalizers=(example.com/x, orphan)
//	owners=(Widget/a blocking=true, Rack/r controller=true uid=other)
//	deleted=2001-01-01T00:00:00Z grace=30 uid=its rv=1 labels=(a=b)
//
// and spec, status, apiVersion and kind. "its" is the value that is stored,
// "none" leaves a field out (in a patch: takes it away), 254*n is n 254 times.
// Rack/r of=Widget/a is a reference to Rack r with the uid of Widget a. The Widget
// a@far is called a, and is in another namespace.
// "dry-run" asks for a dry run. A patch is a merge patch of what is named.
// Arguments of a DELETE are policy, orphanDependents, grace, uid, rv and dryRun.
//
// What is printed of a request is
//
//	200 generation=2 deleted grace=0 finalizers=[orphan]   the reply
//	200 generation=1; unchanged                            the same revision is stored
//	200 generation=2; stored: generation=1                 something else is stored
//	200; gone                                              nothing is stored any more
//	422 Invalid FieldValueRequired metadata.name           a refusal, and its causes
//
// Other commands:
//
//	each             plays each line of its input behind those that begin with
//	                 "given", and prints them as a table
//	delete-table     a table of DELETE: its lines are what finalizers the object has
//	repeat-table     a table of two DELETE after another
//	settled          plays each line of its input, lets the collector come to an
//	                 end, there and wherever a line says "settle", and prints what
//	                 is left of the objects that were created
//	class-table      a table of what a reference means: see testdata/collector
//	recorded         says from what, and from which script, outputs were recorded
//
// Each line of a table is in a world of its own, and so is what follows one.
//
// # Deviations
//
// Where Coppice answers otherwise by decision, the input says how and why:
//
//	coppice says "202 " for "200 ": the object is not gone yet (A4.10)
//
// Then its output is the recorded one with that text replaced, and nothing else.
package oracle
