/*
 * The cascade: how what is owned is deleted, by whom, and what may go wrong
 * meanwhile. README.md says what is modelled and what is left out, and in which
 * file of the code each step is. spec/check verifies it, and its mutants.
 *
 * A commit changes one object here. What the code decides together in one
 * commit is decided one after the other.
 */

#include "state.pml"
#include "writer.pml"

/* Replica folds the log. When it has all of it, it can become the writer: by a commit, which fences. */
proctype Replica() {
	byte u;
end:	do
	:: d_step { nempty(log) ->
		log?u, next.st, next.fin, next.own, next.blk;
		replica[u].st = next.st; replica[u].fin = next.fin; replica[u].own = next.own; replica[u].blk = next.blk;
		u = 0
	   }
	:: d_step { !up && empty(log) -> printf("the replica becomes the writer\n"); up = true; fenced = flying }
	od
}

/* Propagator publishes what rows say is pending: at once, or again, as often as it is pending. */
#define room (up && len(work) < STREAM)
#define publishDependent(d) \
	:: atomic { room && head[d].st == LIVE && head[d].own & dirtyRows && !work??[Dirty, 0, d] -> work!!Dirty, 0, d } \
	publishPart(0, d) publishPart(1, d) publishPart(2, d)
#define publishPart(o, d) \
	:: atomic { room && has(partRows, o) && has(head[d].own, o) && !work??[Part, o, d] -> work!!Part, o, d }
#define publishOwner(u) \
	:: atomic { room && has(finishRows, u) && !work??[Finish, u, 0] -> work!!Finish, u, 0 } \
	:: atomic { room && has(unlockRows, u) && !work??[Unlock, u, 0] -> work!!Unlock, u, 0 }

proctype Propagator() {
end:	do
	publishDependent(0) publishOwner(0)
	publishDependent(1) publishOwner(1)
	publishDependent(2) publishOwner(2)
#if N == 4
	publishDependent(3) publishOwner(3)
	publishPart(3, 0) publishPart(3, 1) publishPart(3, 2) publishPart(3, 3)
#endif
	od
}

/* Processor evaluates a dependent by what the replica says, and proposes. */
proctype Processor() {
	byte d, proposal;
end:	do
	:: d_step { work??[Dirty, _, _] -> work??Dirty, _, d; proposal = evaluate(replica, d);
		printf("Processor: object %d: decision %d\n", d, proposal) }
		if
		:: proposal == KEEP
		:: else -> handle(collect(d, proposal), Collector, d, 0, d, Dirty)
		fi;
		d_step { d = 0; proposal = 0 }
	od
}

/* Finalizers answers the two finalizers that are built in, and cycles of waiting owners. */
proctype Finalizers() {
	byte o, d;
end:	do
	:: work??Part, o, d -> handle(part(o, d), Orphaner, d, o, d, Part); d_step { o = 0; d = 0 }
	:: work??Finish, o, _ -> handle(finish(o), Finisher, o, o, 0, Finish); o = 0
	:: work??Unlock, o, _ -> handle(unlock(o), Unlocker, o, o, 0, Unlock); o = 0
	od
}

/* Outside answers external finalizers, for as long as there are calls. */
#define answer(u) :: d_step { writable && has(held(head), u) -> read(u); unfinalize(EXT); commit(Outsider, u) }
proctype Outside() {
end:	do
	answer(0) answer(1) answer(2)
#if N == 4
	answer(3)
#endif
	od
}

/* Users delete, with any policy and again; create dependents late; change owners; add finalizers. */
#define asks(u) (ops > 0 && writable && exists(head, u))
#define deletes(u, policy) :: d_step { asks(u) -> ops--; read(u); delete(policy); commit(User, u) }
#define adds(u, o) \
	:: d_step { asks(u) && head[o].st != UNSEEN && !has(head[u].own, o) -> ops--; read(u); claim(o, 0); commit(User, u) } \
	:: d_step { asks(u) && head[o].st != UNSEEN && !has(head[u].own, o) -> ops--; read(u); claim(o, bit(o)); commit(User, u) } \
	:: d_step { asks(u) && has(head[u].own, o) -> ops--; read(u); drop(bit(o)); commit(User, u) }
#define creates(u, o) \
	:: d_step { ops > 0 && writable && head[u].st == UNSEEN && head[o].st != UNSEEN -> ops--; read(u); next.st = LIVE; claim(o, 0); commit(User, u) } \
	:: d_step { ops > 0 && writable && head[u].st == UNSEEN && head[o].st != UNSEEN -> ops--; read(u); next.st = LIVE; claim(o, bit(o)); commit(User, u) }
#define user(u) \
	deletes(u, 0) deletes(u, FG) deletes(u, ORPHAN) \
	adds(u, 0) adds(u, 1) adds(u, 2) creates(u, 0) creates(u, 1) creates(u, 2) \
	:: d_step { asks(u) && head[u].st == LIVE && !(head[u].fin & EXT) -> ops--; read(u); next.fin = next.fin | EXT; commit(User, u) }

inline claim(o, blocking) { next.own = next.own | bit(o); next.blk = next.blk | (blocking) }

proctype Users() {
end:	do
	user(0)
	user(1)
	user(2)
#if N == 4
	user(3) adds(0, 3) adds(1, 3) adds(2, 3) adds(3, 3) creates(0, 3) creates(1, 3) creates(2, 3)
#endif
#ifdef FAIR
	:: d_step { ops > 0 -> ops = 0 } /* nobody has to */
#endif
	od
}

/*
 * Faults: the graph service dies, and its volatile state with it; the work
 * stream is lost; the append of a writer that is gone arrives late, or never.
 */
proctype Faults() {
end:	do
	:: d_step { faults > 0 && up -> faults--; crash() }
	:: d_step { faults > 0 && nempty(work) -> faults--;
		printf("the work stream is lost\n");
		do
		:: len(work) > 0 -> work?_, _, _
		:: len(work) == 0 -> break
		od;
		skip
	   }
	:: d_step { flying && nfull(log) ->
		if
#ifndef NO_CAS
		:: fenced
#endif
		:: else ->
			next.st = flight.st; next.fin = flight.fin; next.own = flight.own; next.blk = flight.blk;
			append(flightBy, flightOf)
		fi;
		land()
	   }
	:: d_step { flying -> land() }
#ifdef FAIR
	:: d_step { faults > 0 -> faults = 0 }
#endif
	od
}

/*
 * The start: any graph within the bounds. Objects are alike, so of graphs that
 * differ only in their numbers those will do in which rank does not fall.
 */
#define in(u)  ((dependents(head, u) & 1) + has(dependents(head, u), 1) + has(dependents(head, u), 2) + has(dependents(head, u), 3))
#define out(m) (has(m, 0) + has(m, 1) + has(m, 2) + has(m, 3))
#define rank(u) ((((head[u].fin * 5 + out(head[u].own)) * 5 + out(head[u].blk)) * 5 + in(u)) * 2 + has(head[u].own, u))

init {
	byte u, o, refs, fins;
	atomic {
		do
		:: u < BORN ->
			head[u].st = LIVE;
			if
			:: skip
			:: fins < FINS -> fins++; head[u].fin = EXT
			:: fins < FINS -> fins++; head[u].fin = ORPHAN
			:: fins < FINS -> fins++; head[u].fin = FG
			fi;
			o = 0;
			do
			:: o < BORN ->
				if
				:: skip
				:: refs < REFS -> refs++; head[u].own = head[u].own | bit(o)
				:: refs < REFS -> refs++; head[u].own = head[u].own | bit(o); head[u].blk = head[u].blk | bit(o)
				fi;
				o++
			:: else -> break
			od;
			u++
		:: else -> break
		od;
		u = 1;
		do
		:: u < BORN && rank(u - 1) > rank(u) -> goto end
		:: u < BORN && rank(u - 1) <= rank(u) -> u++
		:: u >= BORN -> break
		od;
		u = 0;
		do
		:: u < N ->
			printf("object %d: live %d, finalizers %d, owners %d, blocking %d\n",
				u, head[u].st == LIVE, head[u].fin, head[u].own, head[u].blk);
			replica[u].st = head[u].st; replica[u].fin = head[u].fin; replica[u].own = head[u].own; replica[u].blk = head[u].blk;
			u++
		:: else -> break
		od;
		u = 0; o = 0; refs = 0; fins = 0;
		run Replica(); run Propagator(); run Finalizers(); run Outside(); run Users(); run Faults();
		do
		:: u < PROCESSORS -> u++; run Processor()
		:: else -> u = 0; break
		od
	}
end:
#ifdef FAIR
	do
	:: faults <= FAULTS /* always: spin's fairness finds no violation in a state without a step */
	od
#else
	skip
#endif
}

/* Liveness, once users and faults have come to an end. */
ltl L1 { <>[] !(garbage || lingering) }
ltl L2 { <>[] !unstripped }
ltl L3 { <>[] !unfinished }
ltl L4 { <>[] !deadlocked }
ltl L  { <>[] !(garbage || lingering || unstripped || unfinished || deadlocked) }
