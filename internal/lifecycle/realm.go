package lifecycle

// Origin names the log that a realm continues.
type Origin struct {
	RealmID [16]byte // of the realm whose log it is; zero for a realm that began empty
	// Sequence is the last commit of that log which this realm has. The first commit of this
	// realm has the sequence after it.
	Sequence uint64
}

// Realm is what the log records about the realm itself, apart from its objects. The event
// that changes it has no revision.
type Realm struct {
	// Origin is set for a realm that was restored from an archive or replayed from a file.
	Origin Origin
	// Paused: no command changes objects, and no work is published, until the command
	// "resume". A realm with an Origin begins paused, so that an operator can look at it
	// before its collector, its finalizers and its clients act.
	Paused bool
}

// After returns the realm after an event. An event without an origin keeps it.
func (r Realm) After(event Realm) Realm {
	if event.Origin == (Origin{}) {
		event.Origin = r.Origin
	}
	return event
}
