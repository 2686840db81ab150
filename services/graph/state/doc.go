// Package state is a realm's state in Pebble: the fold of its log.
//
// A [State] has one writer at a time, a [Tx]. It collects the effects of one or more commits
// in memory and writes them in one batch, together with the checkpoint, which says up to
// which commit the log has been folded. The next [Tx] may start from transactions that are
// not written yet; they are written in order. Any number of Snapshots read concurrently.
// Names and comments use the words decide, append, answer and apply as package writer does.
// [Tx] and [Snapshot] implement [lifecycle.View].
//
// # What it promises
//
//   - A [Snapshot] is the fold of the log up to one commit.
//   - The stored keys and values are a function of the log alone: folding the same
//     commits in batches of any size gives the same result. [Diff] and `coppice verify`
//     rely on it, and so do snapshots in files (package snapshot): replicas have equal
//     content hashes at the same commit.
//   - After a crash the state is the fold of a prefix of the log; its checkpoint says
//     which. Writes to Pebble are neither synced nor logged, because the realm's log can
//     be replayed.
//   - While a state is rebuilt, objects may be left out that a later commit removes
//     ([Tx.Pass]: replay elision). Until that commit is applied the state is not the fold
//     of a prefix, and [Open] refuses it with an [UnfinishedError].
//
// # What it does not do
//
// It does not check that commits follow one another (package eventlog does that), and
// does not decide commands (package lifecycle does that).
//
// # Layout
//
// Rows that are read together have neighbouring keys. keys.go spells the keys:
//
//	n name     resource, namespace, name    -> uid
//	o node     uid                          -> revision, flags, coppice.v1.Node
//	b body     uid                          -> coppice.v1.Body
//	e edge     owner, claim, dependent      -> flags
//	c claim    owner, claim                 -> number of dependents with that claim
//	           Both have the users of an object, too, under a key that is no uid: see usersOf
//	a absent   uid of a removed owner       -> revision, coordinates
//	w work     uid                          -> pending work
//	t removed  sequence                     -> uids removed by the commit
//	q protect  resource, namespace, name    -> uid of a protected object
//	x expiry   time, uid                    -> nothing: the object expires then
//	v notice   uid                          -> the notices of its deletion: coppice.v1.ExpiryNotices
//	r command  span of time, id, actor      -> sequence and time of the commit, whether more is to come
//	i index    revision                     -> sequence
//	s session  id                           -> last command of an import session
//	k kind     resource                     -> number of objects
//	d brake    resource                     -> window, base, counted deletions, when it tripped
//	l released uid                          -> nothing: a released brake lets its deletion through
//	g realm    what the log records of the realm itself: its origin, whether it is paused, its pauses,
//	                                           the number of released objects, and of those with notices
//	m meta     checkpoint, schema
//	p position by sequence: where commits are in the stream that follow skipped messages
package state
