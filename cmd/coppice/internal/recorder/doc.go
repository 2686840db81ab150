// Package recorder writes a realm's log to a file: a segment that can be continued after an
// interruption.
package recorder
