// Package oracle plays scripts of API requests against a server and prints what a client
// sees of each reply: the code, the reason, the invalid fields, and how the object has
// changed. It prints neither messages nor values that differ between runs.
//
// The scripts in testdata are played against two servers. The module test/oracle plays
// them against Kubernetes and records the outputs ("make oracle" records again). The tests
// of this package play them against the rules of internal/lifecycle, and fail if an output
// differs. The scripts in testdata/requests test single requests. For the scripts in
// testdata/collector the garbage collector runs, too.
//
// # Commands
//
// Scripts are in the format of package datadriven. A request is
//
//	create|update|update-status|patch|delete widgets/a ARGUMENT...
//
// where widgets are namespaced and racks are cluster-scoped. An update reads the object,
// changes it and writes it: fields that the arguments do not name keep their stored values,
// also resourceVersion. Arguments of objects are fields of metadata,
//
//	finalizers=(example.com/x, orphan)
//	owners=(Widget/a blocking=true, Rack/r controller=true uid=other)
//	deleted=2001-01-01T00:00:00Z grace=30 uid=its rv=1 labels=(a=b)
//
// and spec, status, apiVersion and kind. "its" is the stored value, "none" leaves a field
// out (a patch removes it), 254*n repeats n 254 times.
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
//	each             plays each line of its input after the lines that begin with
//	                 "given", and prints the results as a table
//	delete-table     a table of DELETE: each line has the finalizers of the object
//	repeat-table     a table of two DELETE requests for the same object
//	settled          plays each line of its input, and waits for the collector at the
//	                 end and at each line "settle"; prints what is left of the objects
//	class-table      a table of how the collector treats a reference: see
//	                 testdata/collector
//	recorded         the version of Kubernetes and the checksum of the script from
//	                 which the outputs were recorded
//
// Each line of a table has a namespace of its own, and so have the requests after a table.
//
// # Apply
//
// The scripts in testdata/apply test "kubectl apply" with a Widget, for which it computes a
// JSON merge patch, and with a ConfigMap, for which it computes a strategic merge patch. Both
// are also applied with --server-side --force-conflicts. Another client writes a merge patch
// in between.
//
//	apply-table FIELD  for each combination of the values in its input: applies an object
//	                   that has the value "first" in this field, patches it with the value
//	                   "other", applies it with the value "second", and prints the field
//	apply-steps NAME   plays the steps in its input, create, apply or patch and the JSON of
//	                   a manifest or patch without kind and name, and prints the object
//	                   after each
//
// A value in a table is
//
//	a=1 b=null  a map with strings and null
//	[a b! c]    a list: of words, of finalizers example.com/a, or of references to owners
//	            with the uid a0000000-0000-4000-8000-000000000000; b! blocks the deletion
//	{} [] null  these values
//	-           no value: the manifest does not have the field
//	nothing     the client writes no patch
//
// Before the object, a result has the exit code unless it is 0, what kubectl reports, such as
// "unchanged", and "warned" if there is a warning. A table leaves out "configured" and
// "serverside-applied". The annotation of kubectl with the last manifest is not printed.
//
// Coppice has no kinds that it merges in another way, and no server-side apply: the tests play
// all scripts with Widgets, and compare them with the results of "Widget" and "ConfigMap".
// testdata/apply-deviations.txt names the cells in which Coppice deliberately has another
// result.
//
// # Command lines
//
// testdata/commands has what kubectl prints for command lines: the exit code, the first lines of
// both outputs, and the objects that it changed. test/oracle/kubectl describes the format and
// records them. They are not replayed yet.
//
// # Deviations
//
// Where Coppice deliberately replies otherwise, the input says how and why:
//
//	coppice says "202 " for "200 ": the object is not gone yet (A4.10)
//
// The output must then be the recorded one with this text replaced.
//
// # Races
//
// Where the outcome in Kubernetes depends on the order in which its collector works, the
// input names the outcome that is not recorded, and why:
//
//	kubernetes may say "widgets/b  gone" for "widgets/b  generation=2": why
//
// Coppice must reply what is recorded, in every order of its work.
package oracle
