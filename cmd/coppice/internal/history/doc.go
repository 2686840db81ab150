// Package history reads the event log of a realm backwards, and explains an event by
// its causes: from the nearest one back to the command that a user sent.
package history
