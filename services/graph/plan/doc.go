// Package plan finds out what a deletion would do, without doing it.
//
// It begins with a snapshot, applies the DELETE by the rules of package
// lifecycle, and then does what is owed, as the collector and the built-in
// finalizers would, until nothing is left that happens without somebody else.
// What is gone by then is removed at once. Then everybody who holds an object
// does their part: external finalizers are removed, agents confirm, controllers
// acknowledge, import sessions end; and so on, until nothing happens any more.
//
// # What it promises
//
//   - Nothing is changed, and there are no rules here: what it finds is what the
//     writer, deciding the same commands in the same order at that state, does.
//   - It looks only at what the deletion reaches: at the objects, their
//     dependents, what is in a namespace or of a kind, and whatever waits for
//     one of these.
//   - A plan is found at one revision and at one time, and is bounded in size and,
//     by its context, in time.
//
// # What it does not
//
// It does not know what others do meanwhile. Where the order in which things
// are done shows in the outcome (lifecycle's TestConfluent says where) it is that
// of a search in breadth.
//
// Its callers are the API's verb plan, on replicas, and the writer, which
// computes the plan of a DELETE that names one again in the commit that acts.
package plan
