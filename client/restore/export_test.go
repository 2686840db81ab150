package restore

// What the tests of the pure part use: they compute plans without a realm.

type (
	Cascade      = cascade
	Event        = logEvent
	Input        = input
	FormerObject = formerObject
	Member       = member
	ObjectName   = objectName
)

var (
	Build        = build
	NewCascade   = newCascade
	NewSelection = newSelection
)

// AddEvents is Add for the events of a commit whose commands are all complete.
func (c *cascade) AddEvents(events []Event) error {
	return c.add(events, func(uint32) bool { return false }, func(uint32) {})
}
