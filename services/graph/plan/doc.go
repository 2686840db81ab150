// Package plan computes what a deletion would do, without doing it.
//
// It starts with a snapshot, applies the DELETE by the rules of package lifecycle, and
// does the pending work of the collector and the built-in finalizers until only external
// blockers are left. Objects that are removed by then have the outcome "removed". Then
// each external blocker does its part: external finalizers are removed, agents confirm,
// controllers acknowledge the generation, import sessions end. Both steps repeat until
// nothing changes any more.
//
// # What it promises
//
//   - It changes nothing, and has no rules of its own: the result is what the writer
//     would do if it decided the same commands in the same order at that state.
//   - It reads only what the deletion reaches: the objects, their dependents, the
//     contents of namespaces and kinds, and the objects that wait for one of these.
//   - A plan is computed at one revision and one time. Its size is bounded, and its
//     context bounds its time.
//
// # What it does not promise
//
// It does not know what other clients do meanwhile. If the outcome depends on the order of
// work (lifecycle's TestConfluent shows when), the plan has that of a breadth-first order.
//
// Its callers are the API's verb plan, on replicas; the verb readpast, for a plan in the past; and the writer, which computes the
// plan of a DELETE again in the commit that acts, if the DELETE names a plan, and what the release of a brake lets through.
package plan
