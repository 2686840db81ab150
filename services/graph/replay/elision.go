package replay

import (
	"context"
	"errors"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// elision says which objects a fold leaves out of a stretch of the log: objects that are
// created and removed in the stretch and leave no trace in the state at its end. In an old
// log these are nearly all, so that a fold that leaves them out has little to write.
//
// To be left out, an object must change nothing that outlasts it. In addition to its own
// rows, it changes those of its owners: counters, pending work, and whether they have ever
// had a dependent. These remember more than how many dependents there are now. So each
// owner that the object ever refers to must itself be gone at the end, with everything
// that is kept of it, which is kept while any object refers to it. Then it does not matter
// what the rows were meanwhile, because there are none.
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
	// candidates has the objects that are removed.
	candidates candidates
	// pinned is set when some of them are lasting.
	pinned bool
	// many has the owners of those that have more than one: how many, and which.
	many []int32
	// survivors are the objects that refer to some in candidates, with these references.
	survivors  map[uid.UID][]lifecycle.OwnerReference
	references int // of all survivors
	// skipped are the sequences of messages that are no commits.
	skipped map[uint64]bool
}

// candidate is what is known of an object that is removed.
type candidate struct {
	identity uint64 // see state.Identity
	owner    int32  // its place in candidates, or none; less than none: see elision.owners
	liveness liveness
}

// liveness says whether an object, or something of it, is there at the end of a stretch.
type liveness uint8

const (
	unseen  liveness = iota // its creation was not seen: it is older than the stretch, or not yet created
	elided                  // brief, and left out unless it or an owner turns out to be lasting
	kept                    // brief, but not left out
	lasting                 // not forgotten
)

// none stands for the place of an object that is not in candidates.
const none = -1

// bounds limit what an elision remembers.
type bounds struct {
	// candidates are the objects that are removed. At the limit the stretch ends; the
	// next one has the others.
	candidates int
	// many are owners of objects with more than one. Beyond the limit, such objects are
	// not left out.
	many int
	// references are those of objects that survive. Beyond the limit, the owners in them
	// count as lasting.
	references int
	// skipped are messages that are no commits. At the limit the stretch ends.
	skipped int
}

// memoryBounds limit an elision to some 250 MiB.
var memoryBounds = bounds{candidates: 4 << 20, many: 4 << 20, references: 1 << 18, skipped: 1 << 18}

// errStretchEnds ends a pass over a stretch.
var errStretchEnds = errors.New("the stretch ends")

// findElisions makes the liveness pass and the reference pass over a stretch of the log:
// from one position until another, or until a bound is reached. chain is the place
// before it.
func findElisions(ctx context.Context, log Source, keys *eventlog.Keys, chain eventlog.Chain, from, until uint64, most bounds) (*elision, error) {
	e := &elision{most: most, survivors: map[uid.UID][]lifecycle.OwnerReference{}, skipped: map[uint64]bool{}}
	summarize := func(m eventlog.Message) (*commitSummary, error) { return summaryOf(keys, m) }
	err := readAhead(ctx, log, from, summarize, func(m eventlog.Message, c *commitSummary) error {
		e.until = m.Sequence
		if c == nil || chain.Skips(&c.header) != "" {
			e.skipped[m.Sequence] = true
		} else {
			if err := chain.Follow(m.Sequence, &c.header, c.newKey, c.checksum); err != nil {
				return err
			}
			e.commit = chain.Sequence
			e.candidates.add(c.removed...)
		}
		if len(e.candidates.keys) >= most.candidates || len(e.skipped) >= most.skipped || m.Sequence >= until {
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
		if m.Sequence >= e.until {
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

// end ends the reference pass. What a survivor still refers to is lasting, and an object
// that had a lasting owner is not left out.
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

// filter returns what leaves out objects when a commit is unpacked; nil if there is
// nothing to leave out, or e is nil.
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
