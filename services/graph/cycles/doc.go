// Package cycles finds objects whose references form a cycle, and evaluates what the
// writer does about them. There are two kinds of cycle:
//
//   - Objects that wait for each other: each blocks, uses or is a content of the next,
//     which is being deleted (A14, L4, B3.9). Without help none of them would ever be
//     removed. The propagator collects in a [Blocked] the objects that are blocked, and
//     searches it for cycles. [Unblock] breaks one: the first object that uses the next
//     loses this use. If there is none, the first object stops blocking the next.
//   - Unreachable cycles: objects that own each other and that nothing outside of them
//     owns (A14, X06, L5). A collector that counts references never reaches them;
//     Kubernetes keeps them for ever. The scanner has them looked for with [Unreachable].
//     [Collect] deletes one, if the realm settings say so.
//
// A search reads a snapshot, which may be out of date when the writer acts. So a search
// only proposes: [Unblock] and [Collect] evaluate the cycle again in the commit that acts, and
// do nothing about one that no longer exists. A deletion plan uses [Waiting] and [Unblock] on
// its own view.
package cycles
