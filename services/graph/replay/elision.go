package replay

import (
	"context"
	"errors"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// elision has the objects that a fold leaves out of a stretch of the log: objects that are
// created and removed in the stretch and leave no trace in the state at its end. In an old
// log these are nearly all objects, so a fold that leaves them out writes little.
//
// An object may be left out only if it changes no row that outlasts it. It changes its own
// rows and those of its owners: counters, pending work, and whether an owner ever had a
// dependent. So each owner to which the object ever refers must be gone at the end, together
// with the rows that are kept for it while any object refers to it. What these rows were in
// the meantime then does not matter, because they do not exist any more.
//
//   - An object is brief if it is created through the API and removed, in the stretch.
//   - A brief object is forgotten if no object refers to it at the end.
//   - A brief object is left out if it and all owners that it ever has are
//     forgotten, and it does not govern the realm.
//
// No object refers to a uid before the object with that uid is created, unless uids are
// imported, and objects that are imported are not brief.
//
// When findElisions has returned it, an elision is safe for concurrent use.
type elision struct {
	// until is the position of the last message of the stretch, commit the sequence of
	// the last commit in it.
	until, commit uint64
	most          bounds
	// candidates has the objects that the stretch removes.
	candidates candidates
	// pinned is true if some candidates are lasting.
	pinned bool
	// many has the owners of candidates with more than one owner: their number, then their
	// indexes.
	many []int32
	// survivors are objects that exist at the end and refer to candidates, with these
	// references.
	survivors  map[uid.UID][]lifecycle.OwnerReference
	references int // number of references of all survivors
	// skipped are the positions of messages that are no commits.
	skipped map[uint64]bool
}

// candidate is the record of an object that the stretch removes.
type candidate struct {
	identity uint64 // see state.Identity
	owner    int32  // index of its owner in candidates, or none; less than none: see elision.owners
	liveness liveness
}

// liveness says whether an object, or rows that it has changed, exist at the end of a
// stretch.
type liveness uint8

const (
	unseen  liveness = iota // the pass has not read its creation, which may be before the stretch
	elided                  // brief, and left out unless it or an owner turns out to be lasting
	kept                    // brief, but not left out
	lasting                 // not forgotten
)

// none is the index of an object that is not in candidates.
const none = -1

// bounds limits the memory of an elision.
type bounds struct {
	// candidates is the maximum number of candidates. The stretch ends when it is reached.
	candidates int
	// many is the maximum length of elision.many. Beyond it, objects with several owners
	// are not left out.
	many int
	// references is the maximum number of references of survivors. Beyond it, the owners in
	// them count as lasting.
	references int
	// skipped is the maximum number of messages that are no commits. The stretch ends when
	// it is reached.
	skipped int
}

// memoryBounds limits an elision to about 250 MiB.
var memoryBounds = bounds{candidates: 4 << 20, many: 4 << 20, references: 1 << 18, skipped: 1 << 18}

// errStretchEnds ends a pass over a stretch.
var errStretchEnds = errors.New("the stretch ends")

// findElisions makes the liveness pass and the reference pass over a stretch of the log:
// from one position until another, or until a bound is reached. chain is the chain before
// the stretch.
func findElisions(ctx context.Context, log Source, keys *eventlog.Keys, chain eventlog.Chain, from, until uint64, most bounds) (*elision, error) {
	e := &elision{most: most, survivors: map[uid.UID][]lifecycle.OwnerReference{}, skipped: map[uint64]bool{}}
	summarize := func(m eventlog.Message) (*commitSummary, error) { return summaryOf(keys, m) }
	err := readAhead(ctx, log, from, summarize, func(m eventlog.Message, c *commitSummary) error {
		e.until = m.Position
		if c != nil {
			chain.Adopt(&c.header, c.origin)
		}
		if c == nil || chain.Skips(&c.header) != "" {
			e.skipped[m.Position] = true
		} else {
			if err := chain.Follow(m.Position, &c.header, c.newKey, c.checksum); err != nil {
				return err
			}
			e.commit = chain.Sequence
			e.candidates.add(c.removed...)
		}
		if len(e.candidates.keys) >= most.candidates || len(e.skipped) >= most.skipped || m.Position >= until {
			return errStretchEnds
		}
		return nil
	})
	if !errors.Is(err, errStretchEnds) {
		return nil, err
	}
	if e.candidates.sort(); len(e.candidates.keys) == 0 {
		return e, nil
	}
	err = readAhead(ctx, log, from, e.referrals, func(m eventlog.Message, all []referral) error {
		for i := range all {
			e.note(&all[i])
		}
		if m.Position >= e.until {
			return errStretchEnds
		}
		return nil
	})
	if !errors.Is(err, errStretchEnds) {
		return nil, err
	}
	e.end()
	return e, nil
}

// end ends the reference pass. Candidates to which a survivor still refers are lasting, and
// an object that ever had a lasting owner is not left out.
func (e *elision) end() {
	var at cursor
	for _, references := range e.survivors {
		for i := range references {
			e.last(e.candidates.find(references[i].UID, &at))
		}
	}
	left := 0
	for i := range e.candidates.of {
		c := &e.candidates.of[i]
		if e.pinned && c.liveness == elided && !e.brief(e.owners(c)) {
			c.liveness = kept
		}
		if c.liveness == elided {
			left++
		}
	}
	if left == 0 {
		e.candidates = candidates{}
	}
	e.survivors, e.many = nil, nil
}

// filter returns the filter that leaves out objects when a commit is unpacked, nil if no
// object is left out or e is nil.
func (e *elision) filter() eventlog.Filter {
	if e == nil || len(e.candidates.keys) == 0 {
		return nil
	}
	var at cursor
	return func(u uid.UID) (identity uint64, pass bool) {
		if place := e.candidates.find(u, &at); place != none {
			c := &e.candidates.of[place]
			return c.identity, c.liveness == elided
		}
		return 0, false
	}
}
