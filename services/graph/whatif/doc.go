// Package whatif replays a recorded log under other realm settings or kinds, and reports which
// objects would have been deleted or kept differently.
//
//	commit of the log ──► realm as recorded (all events)
//	       │                    │ which request of a user explains the event?
//	       └─ users' events ────▼
//	                      realm under other settings: the request is decided again by the
//	                      rules; then collector and built-in finalizers do all their work
//
// Both realms are package memrealm in memory. Events of the collector, of built-in finalizers and
// of the search for cycles are not replayed: the rules decide them again, right after each commit.
// A user's event that the rules refuse, or whose object does not exist, no longer applies, and is
// reported.
//
// The log has events and not requests. A deletion counts as one without options if that results in
// the recorded event. An update changes the members that it has changed in the log, and leaves the
// others as they are.
package whatif
