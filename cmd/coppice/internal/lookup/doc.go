// Package lookup reads from a realm what several commands show about objects: their
// owners and dependents, the programs that receive the calls of their finalizers and
// agents, warnings, and events.
//
// Some of this information helps to understand an object, and the object can be shown
// without it. If the user may not read such information, a command shows the rest, and
// prints a note that names what is missing: see [Reader.Optional]. Information that a command
// is for is not optional: without it, the command fails.
package lookup
