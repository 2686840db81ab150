// Package state is a realm's state in Pebble: the fold of its log.
//
// A State has one writer at a time, a Tx, which collects the effects of one or
// more commits in memory and then writes them in one batch, together with the
// checkpoint that says how far the log has been folded. The next Tx may stand on
// those that are not written yet; they are written in their order. Any number
// of Snapshots read beside them. Both are lifecycle.Views.
//
// # What it promises
//
//   - A Snapshot is the fold of the log up to one revision, never in between.
//   - What is stored is a function of the log alone: folding the same commits,
//     in batches of any size, gives the same keys and values. Compare relies
//     on it, and so does `coppice verify`.
//   - After a crash the state is the fold of some prefix of what was written
//     before; its checkpoint says which. Writes are not synced and have no log
//     of their own, because the realm's log is that.
//   - A state that is made anew may leave out objects that come and go again
//     before a later commit (Tx.Pass). Until it has come to that one it is no
//     fold of anything, and Open refuses it: UnfinishedError.
//
// # What it does not
//
// It does not check that commits follow one another (package eventlog does),
// and it decides nothing (package lifecycle does).
//
// # Layout
//
// What is read together lies together; keys.go spells the keys:
//
//	n name     resource, namespace, name    -> uid
//	o node     uid                          -> revision, flags, coppice.v1.Node
//	b body     uid                          -> coppice.v1.Body
//	e edge     owner, claim, dependent      -> flags
//	c claim    owner, claim                 -> how many dependents claim so
//	a absent   uid of a removed owner       -> revision, coordinates
//	w owed     uid                          -> what has still to happen
//	t removed  sequence                     -> uids removed by the commit
//	r command  span of time, id, actor      -> sequence and time of the commit, whether more is to come
//	i index    revision                     -> sequence
//	s session  id                           -> import session
//	m meta     checkpoint, schema
//	p position by sequence: where commits are in the stream that follow skipped messages
package state
