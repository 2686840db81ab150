/*
 * The writer: what it decides, and what must hold where a decision lands in the
 * log. Also the code of workers that asks it.
 */

/* The writer evaluates again what is proposed; the mutant NO_VERIFY believes it. */
#ifdef NO_VERIFY
#define verify(proposed, found) (proposed)
#else
#define verify(proposed, found) (found)
#endif

/* An owner is finished when nothing delays it; the mutant BLOCKING_ONLY looks at what blocks it alone. */
#ifdef BLOCKING_ONLY
#define delays(S, u) blockers(S, u)
#else
#define delays(S, u) delaying(S, u)
#endif

/* Properties. A run may check one alone: -DONLY=7. */
#ifndef ONLY
#define S1(p) assert(p)
#define S3(p) assert(p)
#define S7(p) assert(p)
#define S9(p) assert(p)
#define PENDING(p) assert(p)
#else
#define S1(p) assert(ONLY != 1 || (p))
#define S3(p) assert(ONLY != 3 || (p))
#define S7(p) assert(ONLY != 7 || (p))
#define S9(p) assert(ONLY != 9 || (p))
#define PENDING(p) skip
#endif

/*
 * cycle sets z to the objects that wait for each other in a cycle with d, over
 * blocking references: d's strongly connected component, empty if d is in none.
 */
inline cycle(d) {
	x = 0; y = 0;
	if
	:: has(waiting(head), d) ->
		x = bit(d); y = bit(d); z = 0;
		do
		:: z < N - 1 ->
			x = x | (all(ownersIf, head, x) & waiting(head)); /* above d */
			y = y | (all(ofAny, head, y) & waiting(head)); /* below d */
			z++
		:: else -> break
		od;
		z = x & y;
		if
		:: z == bit(d) && !has(head[d].blk, d) -> z = 0
		:: else
		fi
	:: else -> z = 0
	fi
}

/* survey writes the rows, which are a function of the state, and what L1 to L4 watch. */
inline survey() {
	dirtyRows = 0; partRows = 0; finishRows = 0; unlockRows = 0;
	garbage = false; unstripped = false;
	v = 0;
	do
	:: v < N ->
		if
		:: has(loose(head), v) && dependents(head, v) & ~terminating(head) -> dirtyRows = dirtyRows | bit(v)
		:: else
		fi;
		if
		:: has(orphaning(head), v) && dependents(head, v) -> partRows = partRows | bit(v)
		:: (has(orphaning(head), v) && !dependents(head, v)) || (has(waiting(head), v) && !delays(head, v)) ->
			finishRows = finishRows | bit(v)
		:: else
		fi;
		garbage = garbage || evaluate(head, v) == COLLECT || evaluate(head, v) == COLLECT_FG;
		unstripped = unstripped || evaluate(head, v) == STRIP;
		cycle(v);
		if
		:: z -> unlockRows = unlockRows | bit(v)
		:: else
		fi;
		v++
	:: else -> break
	od;
	unfinished = orphaning(head) || finishRows;
	deadlocked = waiting(head) != 0;
	lingering = terminating(head) != 0;
	/* What is not done is pending; and pending work has an effect: see README.md, liveness. */
	PENDING(!(garbage || unstripped || terminating(head)) || dirtyRows || partRows || finishRows || unlockRows || held(head));
	v = 0;
	do
	:: v < N ->
		PENDING(head[v].st != LIVE || !(head[v].own & dirtyRows) || evaluate(head, v) != KEEP);
		v++
	:: else -> break
	od;
#ifdef NO_UNLOCK
	unlockRows = 0;
#endif
	v = 0
}

/* Decisions: of the writer, about object u, from what it sees to next. */
inline read(u) {
	next.st = head[u].st; next.fin = head[u].fin; next.own = head[u].own; next.blk = head[u].blk
}

inline remove() { next.st = GONE; next.fin = 0; next.own = 0; next.blk = 0 }

/* delete is the table A5: builtin is the built-in finalizer that the policy leaves. */
inline delete(builtin) {
	next.fin = (next.fin & EXT) | (builtin);
	if
	:: next.fin -> next.st = TERM
	:: else -> remove()
	fi
}

inline unfinalize(f) {
	next.fin = next.fin & ~(f);
	if
	:: next.st == TERM && !next.fin -> remove()
	:: else
	fi
}

inline drop(refs) { next.own = next.own & ~(refs); next.blk = next.blk & ~(refs) }

inline collect(d, proposed) {
	read(d);
	v = verify(proposed, evaluate(head, d));
	if
	:: next.st == GONE -> skip
	:: else ->
		if
		:: proposed != STRIP && v == COLLECT_FG -> delete(FG)
		:: proposed != STRIP && v == COLLECT -> delete(next.fin & (FG | ORPHAN))
		:: proposed == STRIP && v == STRIP -> drop(loose(head))
		:: else /* refused */
		fi
	fi
}

/* part removes d's reference to an owner that orphans it; those that d kept only because of that owner go first. */
inline part(o, d) {
	read(d);
	if
	:: has(orphaning(head), o) && has(next.own, o) ->
#ifndef PART_ONLY
		if
		:: evaluate(head, d) == STRIP -> drop(loose(head))
		:: else
		fi;
#endif
		drop(bit(o))
	:: else
	fi
}

inline finish(u) {
	read(u);
	if
	:: has(orphaning(head), u) && verify(true, !dependents(head, u)) -> unfinalize(ORPHAN)
	:: has(waiting(head), u) && verify(true, !delays(head, u)) -> unfinalize(FG)
	:: else
	fi
}

/* unlock unblocks u's references inside of its cycle, and no others. */
inline unlock(u) {
	read(u);
	cycle(u);
#ifdef UNLOCK_ALL
	if
	:: z -> z = 255
	:: else
	fi;
#endif
	next.blk = next.blk & ~z
}

#define changed(u) (next.st != head[u].st || next.fin != head[u].fin || next.own != head[u].own || next.blk != head[u].blk)

/* A counterexample is told by what is printed: spec/check show. */
inline say(by, u) {
	if
	:: head[u].st == GONE -> printf("%e: object %d is removed\n", by, u)
	:: else -> printf("%e: object %d is now: terminating %d, finalizers %d, owners %d, blocking %d\n",
		by, u, head[u].st == TERM, head[u].fin, head[u].own, head[u].blk)
	fi
}

/* append makes next the head's u. What is asserted is of the state in which it lands, whatever was decided on. */
inline append(by, u) {
	/* S1: the collector deletes only what has owners, all of which are absent or wait. */
	S1(by != Collector || next.st == LIVE || (head[u].own && !solid(head, u)));
	/* S3: what is removed has no finalizers but the one that this step answers, and it was to be deleted. */
	S3(next.st != GONE ||
		((by == User || by == Collector) && !(head[u].fin & EXT)) ||
		(by == Finisher && head[u].st == TERM && (head[u].fin == FG || head[u].fin == ORPHAN)) ||
		(by == Outsider && head[u].st == TERM && head[u].fin == EXT));
	/* S7: an owner that waited goes after the dependents that delay it; and only in a cycle are these unblocked. */
	S7(by != Finisher || !has(waiting(head), u) || !delaying(head, u));
	if
	:: by == Unlocker ->
		cycle(u);
		S7(!(head[u].blk & ~next.blk & ~z))
	:: else
	fi;
	/* S9: an owner that orphans goes after its dependents were parted from it; and parting makes no garbage. */
	S9(by != Finisher || !has(orphaning(head), u) || !dependents(head, u));
	S9(by != Orphaner || next.st != LIVE || !(next.own & loose(head)));

	head[u].st = next.st; head[u].fin = next.fin; head[u].own = next.own; head[u].blk = next.blk;
	say(by, u);
	log!u, next.st, next.fin, next.own, next.blk;
	survey()
}

inline commit(by, u) {
	if
	:: changed(u) -> append(by, u)
	:: else
	fi
}

/*
 * handle lets a worker ask the writer for a decision, and acknowledge its
 * message. A message that is not acknowledged comes again.
 */
#define writable (up && nfull(log))
#define handle(decision, by, u, o, d, kind) \
	if \
	:: d_step { writable -> decision; commit(by, u) } \
	:: atomic { faults > 0 -> faults--; work!!kind, o, d } /* dies before it asks */ \
	:: d_step { writable && faults > 0 -> faults--; decision; commit(by, u); work!!kind, o, d } /* the ack is lost */ \
	:: d_step { writable && faults > 0 && !flying -> faults--; work!!kind, o, d; decision; crash_in_append(by, u) } \
	fi

/* crash_in_append: the writer dies while its append is in flight, and no client gets a reply. */
inline crash_in_append(by, u) {
	crash();
	if
	:: changed(u) ->
		printf("%e: object %d: the append is in doubt\n", by, u);
		flying = true; flightBy = by; flightOf = u;
		flight.st = next.st; flight.fin = next.fin; flight.own = next.own; flight.blk = next.blk
	:: else
	fi
}

inline crash() {
	printf("the graph service dies\n");
	up = false
#ifdef ROWS_LOST
	; dirtyRows = 0; partRows = 0; finishRows = 0; unlockRows = 0
#endif
}

inline land() {
	flying = false; fenced = false; flightBy = 0; flightOf = 0;
	flight.st = 0; flight.fin = 0; flight.own = 0; flight.blk = 0
}
