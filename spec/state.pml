/* What there is: objects, the log and its folds, rows, work; and what can be read of it. */

/* Bounds. spec/check sets them for each run. */
#ifndef N
#define N 3 /* objects: 3 or 4 */
#endif
#ifndef REFS
#define REFS 2 /* owner references at the start */
#endif
#ifndef FINS
#define FINS 1 /* finalizers at the start */
#endif
#ifndef BORN
#define BORN N /* objects at the start; users create the others */
#endif
#ifndef OPS
#define OPS 2 /* commands of users */
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef LAG
#define LAG 1 /* commits that the replica is behind, at the most */
#endif
#ifndef STREAM
#define STREAM 2 /* messages that the work stream takes */
#endif
#ifndef PROCESSORS
#define PROCESSORS 1
#endif

/* States of an object, and its finalizers. */
#define UNSEEN 0
#define LIVE   1
#define TERM   2 /* terminating */
#define GONE   3
#define FG     1 /* foregroundDeletion */
#define ORPHAN 2
#define EXT    4 /* one that a program outside answers */

typedef Object {
	byte st;
	byte fin;
	byte own; /* its owners, one bit for each */
	byte blk /* those of them with blockOwnerDeletion */
}

/*
 * The log is what was appended. Only two folds of it matter, and what lies
 * between them; nobody can tell what else there was.
 */
Object head[N];    /* all of the log: the state of whoever is the writer */
Object replica[N]; /* a prefix of it: what processors ask, and takes over */
chan log = [LAG] of { byte, byte, byte, byte, byte };

bool up = true; /* there is a writer */

/* An append of a writer that is gone, and that may arrive yet. */
bool flying, fenced; /* fenced: it expects a sequence that is not the last any more */
mtype flightBy;
byte flightOf;
Object flight;

/* Rows: because of which objects which kind of work is pending. */
byte dirtyRows, partRows, finishRows, unlockRows;

/* The work stream: kind of work, owner, dependent. */
mtype = { Dirty, Part, Finish, Unlock };
chan work = [STREAM + PROCESSORS + 1] of { mtype, byte, byte };

/* Who commits. */
mtype = { User, Collector, Orphaner, Finisher, Unlocker, Outsider };

byte ops = OPS, faults = FAULTS;

/* What L1 to L4 say is not for ever: see survey. */
bool garbage, lingering, unstripped, unfinished, deadlocked;

hidden Object next; /* what is decided of an object */
hidden byte v, x, y, z;

/* Sets of objects are masks. S is a state, head or replica. */
#define bit(u)      (1 << (u))
#define has(set, u) (((set) >> (u)) & 1)
#if N == 4
#define all(p, S, u) (p(S, u, 0) | p(S, u, 1) | p(S, u, 2) | p(S, u, 3))
#else
#define all(p, S, u) (p(S, u, 0) | p(S, u, 1) | p(S, u, 2))
#endif
#define isIn(S, state, u)   ((S[u].st == state) << u)
#define isHeld(S, f, u)     ((S[u].st == TERM && (S[u].fin & f)) << u)
#define owns(S, o, u)       (has(S[u].own, o) << u)
#define isBlocking(S, o, u) (has(S[u].blk, o) << u)
#define ofAny(S, set, u)    (((S[u].blk & (set)) != 0) << u)
#define ownersIf(S, set, u) (has(set, u) * S[u].blk)

#define exists(S, u)     (S[u].st == LIVE || S[u].st == TERM)
#define gone(S)          all(isIn, S, GONE)
#define terminating(S)   all(isIn, S, TERM)
#define waiting(S)       all(isHeld, S, FG)
#define orphaning(S)     all(isHeld, S, ORPHAN)
#define held(S)          all(isHeld, S, EXT)
#define dependents(S, u) all(owns, S, u)
#define blockers(S, u)   all(isBlocking, S, u)
/* lifecycle.DelayOf: who owns a live object is known here, so that it is to be collected or stripped while an owner waits. */
#define live(S)          all(isIn, S, LIVE)
#define delaying(S, u)   (blockers(S, u) | (dependents(S, u) & live(S)))

/* The collector's decision table, as lifecycle.Decide. */
#define KEEP       0
#define COLLECT    1
#define COLLECT_FG 2
#define STRIP      3
#define loose(S)    (gone(S) | waiting(S)) /* what does not hold its dependents */
#define solid(S, d) (S[d].own & ~loose(S))
#define evaluate(S, d) (S[d].st != LIVE || !S[d].own -> KEEP : \
	(solid(S, d) -> (S[d].own & loose(S) -> STRIP : KEEP) : \
	(S[d].own & waiting(S) && dependents(S, d) -> COLLECT_FG : COLLECT)))
