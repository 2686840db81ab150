package lifecycle

import (
	"slices"
	"time"
)

// Origin names the log that a realm continues.
type Origin struct {
	RealmID [16]byte // of the realm whose log it is; zero for a realm that began empty
	// Sequence is the last commit of that log which this realm has. The first commit of this
	// realm has the sequence after it.
	Sequence uint64
}

// RealmChange is the event that changes what the log records about the realm itself. It has no
// revision.
type RealmChange struct {
	Origin Origin // zero: it stays
	Paused bool
	// Since is set in an event that begins a pause: the time of the last commit before the realm
	// stopped. Zero in events of earlier versions, whose pauses do not stop any clock.
	Since Time
}

// Realm is what the log records about the realm itself, apart from its objects.
type Realm struct {
	// Origin is set for a realm that was restored from an archive or replayed from a file.
	Origin Origin
	// Paused: no command changes objects, and no work is published, until the command
	// "resume". A realm with an Origin begins paused, so that an operator can look at it
	// before its collector, its finalizers and its clients act.
	Paused bool
	Pauses Pauses
}

// After returns the realm after an event in a commit of that time.
func (r Realm) After(event RealmChange, now Time) Realm {
	if event.Origin != (Origin{}) {
		r.Origin = event.Origin
	}
	r.Pauses = slices.Clone(r.Pauses)
	if n := len(r.Pauses); n > 0 && r.Pauses[n-1].Until == Never {
		r.Pauses[n-1].Until = now
	}
	if r.Paused = event.Paused; r.Paused && event.Since != 0 {
		r.Pauses = append(r.Pauses, Span{From: event.Since, Until: Never})
	}
	return r
}

// Pauses are the times in which a realm stood still, oldest first: the outage before its restore,
// and then until it was resumed.
type Pauses []Span

// Span is the time from a commit to a later one.
type Span struct{ From, Until Time } // Until: Never while it lasts

// End returns when d has passed since start, without the pauses: no client could import the
// owners of an object while the realm stood still. It is Never while a pause lasts that began
// earlier.
func (p Pauses) End(start Time, d time.Duration) Time {
	end := start.Add(d)
	for _, pause := range p {
		switch {
		case start >= pause.Until || end <= pause.From:
		case pause.Until == Never:
			return Never
		default:
			end += pause.Until - max(pause.From, start)
		}
	}
	return end
}
