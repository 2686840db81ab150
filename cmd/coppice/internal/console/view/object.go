package view

import (
	"time"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/explain"
)

// Kind is a kind that is registered in a realm.
type Kind struct {
	Resource   string `json:"resource"`
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	Namespaced bool   `json:"namespaced"`
}

// ObjectPage is an object of a realm, or what is known of one that was removed.
type ObjectPage struct {
	Ref
	Kind Kind `json:"kind"`
	// State is Active, Terminating or Removed.
	State    string `json:"state"`
	Revision uint64 `json:"revision,omitempty"`
	// Manifest is the object as YAML; empty if it was removed.
	Manifest string `json:"manifest,omitempty"`
	// Hidden: the manifest is of the kind Secret, and its values are left out. They are in the reply if the request has reveal=true.
	Hidden bool `json:"hidden,omitempty"`
	// Explanation says why the object is not deleted, or why it was; Text is the same in the words of `coppice explain`.
	Explanation *explain.Explanation `json:"explanation"`
	Text        string               `json:"text"`
	Warnings    []Warning            `json:"warnings"`
	// Missing are the parts that could not be read.
	Missing []Missing `json:"missing"`
}

// History is what happened to an object, the newest first.
type History struct {
	Events []LogEvent `json:"events"`
	// Complete: there are no older events of the object in the log.
	Complete bool `json:"complete"`
	// Before is the revision before which older events are read: the parameter before of the next request.
	Before uint64 `json:"before,omitempty"`
	// Skipped are messages of the log that are no commits of the realm.
	Skipped []uint64  `json:"skipped"`
	Missing []Missing `json:"missing"`
}

// LogEvent is an event of the log.
type LogEvent struct {
	Ref
	Revision uint64    `json:"revision"`
	Time     time.Time `json:"time"`
	Type     string    `json:"type"`
	Actor    string    `json:"actor,omitempty"`
	Verb     string    `json:"verb,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Note     string    `json:"note,omitempty"`
	Detail   string    `json:"detail,omitempty"`
	// Cause is the revision of the event that caused this one; 0 if a client did.
	Cause uint64 `json:"cause,omitempty"`
	// Because are the causes in words, from the nearest back to the command of a client.
	Because []string `json:"because"`
}

// Family is an object in the tree of owners, with the nearest above and below it.
type Family struct {
	Revision uint64 `json:"revision"`
	// Loading: the objects of the realm are still being read.
	Loading bool     `json:"loading,omitempty"`
	Self    Relative `json:"self"`
	// Owners are in the order of the owner references.
	Owners []Relative `json:"owners"`
	// Dependents are ordered by resource, namespace and name: at most 200 from the place From on.
	Dependents []Relative `json:"dependents"`
	From       int        `json:"from"`
	Total      int        `json:"total"`
}

// Relative is an object in the tree of owners.
type Relative struct {
	Ref
	// State is Present, Terminating, Blocked, Protected, UnknownOwner, Garbage or Absent.
	State string `json:"state"`
	// Waits is what an object that is being deleted waits for, such as "finalizer example.com/bucket"; empty if it waits for nothing.
	Waits      string `json:"waits,omitempty"`
	Owners     int    `json:"owners"`
	Dependents int    `json:"dependents"`
	// Below counts all objects below it, each once.
	Below uint64 `json:"below"`
	// Controller and Blocking are those of the owner reference between the two.
	Controller bool `json:"controller,omitempty"`
	Blocking   bool `json:"blocking,omitempty"`
}

// Found is what a search has found.
type Found struct {
	Matches []Relative `json:"matches"`
	// More: there are others.
	More bool `json:"more,omitempty"`
	// Loading: the objects of the realm are still being read.
	Loading bool `json:"loading,omitempty"`
}
