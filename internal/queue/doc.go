// Package queue is a delaying work queue of keys, with the semantics of the
// workqueue of Kubernetes' client-go:
//
//   - Keys are handed out in the order in which they were added. A key that is
//     added again before it is handed out is handed out once.
//   - A key is never handed out twice at a time. If it is added while it is being
//     processed, it is handed out again after [Queue.Done].
//   - A key that is added with a time ([Queue.AddAt]) becomes ready then, at the earliest of
//     the times given. Adding it for now does not cancel the time.
//
// It differs from it:
//
//   - A key carries [Flags] that say what there is to do. Those of several adds are
//     combined.
//   - Keys are added, taken and done in batches, each under one lock.
//   - The queue is bounded. [Queue.Add] reports that it is full, and the caller can [Queue.AddAll]
//     instead: then it must process all keys, which it has to find by itself.
//   - After [Queue.Rest], a key is not handed out before some time, whatever is added.
//
// Nothing in the queue survives the process. It is for hints about work that is
// stored elsewhere.
package queue
