// Package mirror has the graph of one realm in memory: of each object its identity, labels, owners, finalizers and
// deletion, without contents. The console reads from it what is being deleted, what blocks deletions, and what an object
// owns.
//
// The caller feeds a Mirror with what a watch of the graph delivers, in order. All methods are safe for concurrent use.
// A mirror knows what its user may see: an owner that is not in it may exist all the same. So an owner counts as
// removed only if the mirror has seen its removal. An owner that it has never seen is unknown, as it is for the graph
// service during the owner grace, and nothing is shown as garbage because of it. So is one that was not put again after
// a restart.
//
// An object is condemned if it goes with a deletion: it is terminating; or it is not protected, and each of its owners
// was removed or is condemned itself; or it is not protected and in a namespace or of a kind that is being drained. An
// owner with the finalizer orphan condemns no dependents. Each condemned object belongs to one deletion.
//
// An object that is being deleted and that no present owner or container takes along belongs to the deletion of the first of
// its owners that does not exist. So a mirror that was begun after the root of a deletion in the background was removed shows
// one deletion, whose root is as references name it. An owner that the mirror has never seen counts as one that does not
// exist only here, and only if the user may get all objects and its kind is registered. What is not being deleted yet is not
// counted in such a deletion.
//
// What is not guaranteed: an object that has several condemned owners, in different deletions, is counted in one of
// these deletions, and a mirror that was begun later may count it in another one.
package mirror
