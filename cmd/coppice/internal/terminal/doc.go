// Package terminal writes text for people: colours, tables, numbers with their nouns,
// ages, and names without control characters.
package terminal
