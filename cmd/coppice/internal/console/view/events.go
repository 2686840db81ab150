package view

import "time"

// EventFilter says which events of a realm a page shows. The parameters of GET events have the names of the fields, and an
// Ask has them for the live view Events. An empty field matches all.
type EventFilter struct {
	// Resource and Namespace are those of objects; Name is the name of one.
	Resource  string `json:"resource,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// UID is that of an object.
	UID string `json:"uid,omitempty"`
	// Actor is that of the command, also of events that followed from it.
	Actor string `json:"actor,omitempty"`
	// Cause is the revision of an event: the events that followed from it, and itself.
	Cause uint64 `json:"cause,omitempty"`
	// Since and Until bound the time; Since is within, Until is not.
	Since *time.Time `json:"since,omitempty"`
	Until *time.Time `json:"until,omitempty"`
}

// Events are rows of the log, the newest first. It is the reply to GET events, with before=SEQUENCE for older ones. Each has
// what the searched part of the log has of it: the page adds up the rows of several replies that have the same Root.
type Events struct {
	Rows []EventRow `json:"rows"`
	// Before is the parameter before of the next request; 0 if the search has reached the beginning of the log, or of the time.
	Before uint64 `json:"before,omitempty"`
	// Searched is the time of the oldest commit that was searched.
	Searched *time.Time `json:"searched,omitempty"`
	// Last is the last position that was searched: that after which an Ask continues.
	Last    uint64    `json:"last"`
	Missing []Missing `json:"missing"`
}

// EventRow is a command with what followed from it, or a part of the log that is no commit or cannot be read.
type EventRow struct {
	// Root names the row: the revision of the first event of the command. It is 0 for what is no command.
	Root uint64 `json:"root"`
	// Mark is empty for a command; Skipped for a message of the log that is no commit of the realm, Lost for commits that
	// neither the log nor the archive has, Realm for an event about the realm.
	Mark string `json:"mark,omitempty"`
	// Sequences are the first and the last position in the log of what the row has here.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Begins: the command itself is in the searched part, whether it matches the filter or not; else only what followed from it.
	Begins bool `json:"begins"`
	// Time is that of the command; of a part of the log that of the commit next to it, in the year 1 if none was read.
	Time time.Time `json:"time"`
	// Latest is the time of the newest event of the row.
	Latest time.Time `json:"latest"`
	Actor  string    `json:"actor,omitempty"`
	Verb   string    `json:"verb,omitempty"`
	Note   string    `json:"note,omitempty"`
	// Type and Object are those of the first event of the command; Objects counts the objects that the command names itself.
	Type    string `json:"type,omitempty"`
	Object  Ref    `json:"object"`
	Objects int    `json:"objects"`
	// Says is the row in a sentence, as for Skipped and Lost.
	Says string `json:"says,omitempty"`
	// Counts are the numbers of events here by their types.
	Counts []EventCount `json:"counts"`
}

// EventCount is a number of events of a type.
type EventCount struct {
	Type  string `json:"type"`
	Count int    `json:"count"`
	// Own are those that the command names itself; the others followed from them.
	Own int `json:"own,omitempty"`
}

// Cascade are the events of a row, the oldest first. It is the reply to GET cascade, with root=REVISION, the fields of
// EventFilter, and from=SEQUENCE and skip=NUMBER for later ones.
type Cascade struct {
	Events []LogEvent `json:"events"`
	// From is the parameter from of the next request: the position in the log to go on with; 0 if the log has been searched to
	// its end. Skip is the parameter skip: so many events of the row at this position are in the replies already.
	From uint64 `json:"from,omitempty"`
	Skip int    `json:"skip,omitempty"`
	// Searched is the time of the newest commit that was searched.
	Searched *time.Time `json:"searched,omitempty"`
	Missing  []Missing  `json:"missing"`
}
