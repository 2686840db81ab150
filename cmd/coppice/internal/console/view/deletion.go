package view

import "time"

// Rights are what a user may do with an object, or with a realm. It is the reply to GET rights. What a user may not do is
// not offered.
type Rights struct {
	// Delete and Plan: the user may delete the object, and see what that would do. Without Plan there is no deletion by plan.
	Delete bool `json:"delete"`
	Plan   bool `json:"plan"`
	// RemoveFinalizers and ForceFinalizers are those of the finalizers that the request names which the user may remove by
	// hand, and by force.
	RemoveFinalizers []string `json:"removeFinalizers"`
	ForceFinalizers  []string `json:"forceFinalizers"`
	// ListParked, RetryParked, DropParked and Resume are about the realm.
	ListParked  bool `json:"listParked"`
	RetryParked bool `json:"retryParked"`
	DropParked  bool `json:"dropParked"`
	Resume      bool `json:"resume"`
	// Events: the user may read the log.
	Events bool `json:"events"`
}

// Plan is what a deletion would do. It is the reply to GET plan/{resource}/{namespace}/{name}.
type Plan struct {
	// ID names the plan in this console, to read its tree with GET below/{id}. The console forgets it after some minutes:
	// then the reason of the failure is NotFound, and the page plans again.
	ID string `json:"id"`
	// Plan is the name of the plan, such as foreground-8a3c8b8e61cf3e52@87. It is sent back to delete just so.
	Plan     string     `json:"plan"`
	Revision uint64     `json:"revision"`
	Object   Ref        `json:"object"`
	Policy   string     `json:"policy"`
	Counts   PlanCounts `json:"counts"`
	// Says is the summary, with the number of objects that the user may not get.
	Says string `json:"says"`
	// Confirm: so many objects go, or the plan is unbound, that the name of the object has to be typed.
	Confirm bool `json:"confirm"`
	// Goes counts the objects that go, with those that the user may not get.
	Goes int `json:"goes"`
	// Unbound: the plan has too many objects to be checked again when it is carried out. The object can be deleted without it.
	Unbound bool `json:"unbound,omitempty"`
	// Waits says for which programs objects would wait that receive no calls, or whose calls fail, each a sentence.
	Waits []string `json:"waits"`
	// Notes are what else is to be known, each a sentence: brakes, cycles, outcomes that can be others, how long finalizers
	// took lately.
	Notes []string `json:"notes"`
	// Root is the object that the deletion names.
	Root PlanNode `json:"root"`
	// Below are the first nodes below the root.
	Below PlanBelow `json:"below"`
	// Command is the command line that does the same; empty if there is none.
	Command string    `json:"command,omitempty"`
	Missing []Missing `json:"missing"`
}

// PlanCounts are the numbers of objects by what happens to them.
type PlanCounts struct {
	Removed      int `json:"removed"`
	RemovedLater int `json:"removedLater"`
	Blocked      int `json:"blocked"`
	Orphaned     int `json:"orphaned"`
	Stripped     int `json:"stripped"`
	Kept         int `json:"kept"`
	Protected    int `json:"protected"`
}

// PlanNode is an object of a plan, or a group of objects of one kind which are simply removed and have nothing below them.
type PlanNode struct {
	Ref
	// Group is the number of objects of a group, whose name and UID are empty; 0 for an object.
	Group int `json:"group,omitempty"`
	// Outcome is Removed, RemovedLater, Blocked, Orphaned, Stripped, Kept or Protected.
	Outcome string `json:"outcome"`
	// Says is the outcome in words, such as "removed after its agent".
	Says string `json:"says"`
	// Terminating: it is being deleted already.
	Terminating bool `json:"terminating,omitempty"`
	// Uncertain: the outcome depends on the order of work, and can be another.
	Uncertain bool `json:"uncertain,omitempty"`
	// Children counts the nodes directly below it, with groups as one node; Below counts the objects below it.
	Children int `json:"children"`
	Below    int `json:"below"`
}

// PlanBelow are nodes below an object of a plan: at most 200 from the place From on. It is the reply to GET
// below/{id}, with uid= and from=; with resource= in addition, of the objects in the group of that resource.
type PlanBelow struct {
	Nodes []PlanNode `json:"nodes"`
	From  int        `json:"from"`
	Total int        `json:"total"`
}

// Delete is the body of POST delete. The console deletes only if the deletion still does what the plan says.
type Delete struct {
	// Object is the one that the plan names, with its uid.
	Object Ref    `json:"object"`
	Plan   string `json:"plan"`
	// Unbound deletes the object in the way that the plan says, and what depends on it by then, without comparing the two. It
	// is for plans that say that they are unbound.
	Unbound bool `json:"unbound,omitempty"`
}

// Deleted is the reply to POST delete.
type Deleted struct {
	Object Ref `json:"object"`
	// Pending: the object waits for something; else it is gone.
	Pending bool `json:"pending"`
	// Revision is that of the event that marked or removed the object: the cause of the cascade, see Events.
	Revision uint64   `json:"revision"`
	Warnings []string `json:"warnings"`
}

// Progress is how far a deletion is. It comes with the view Deletion of the live connection, and with GET
// deletion?uid=UID.
type Progress struct {
	// Deletion is what remains, and how fast it goes; its root has the uid that was asked for, if the mirror knows it.
	Deletion
	// State is Running, Ended if none of its objects is left, NotDeleted if the object is not being deleted, or Unknown if there is none with the uid that
	// this console knows of: the page then shows the object's own page, which says what the log has of it.
	State string `json:"state"`
	// Loading: the objects of the realm are still being read, and State may be Unknown or NotDeleted until they are. GET
	// deletion waits for some seconds until they are read.
	Loading bool `json:"loading,omitempty"`
	// Partial: the user may not get all objects of the realm, so that others of the deletion may remain. The numbers, and
	// the state Ended, are those of the objects that the user may get.
	Partial bool `json:"partial,omitempty"`
	// Waiting are the objects that block, the oldest first; at most 20 of Blocked.
	Waiting []Terminating `json:"waiting"`
}

// The states of Progress.
const (
	Running    = "Running"
	Ended      = "Ended"
	NotDeleted = "NotDeleted"
	Unknown    = "Unknown"
)

// RemoveFinalizer is the body of POST finalizer: it removes a finalizer from an object in place of its program.
type RemoveFinalizer struct {
	Object    Ref    `json:"object"`
	Finalizer string `json:"finalizer"`
	// Reason is for the log; it is not empty.
	Reason string `json:"reason"`
	// Force removes it even if its program may be running. Call is then the id of the call that the program works on, which
	// the refusal of an earlier request named; 0 if there is none.
	Force bool   `json:"force,omitempty"`
	Call  uint64 `json:"call,omitempty"`
}

// Done is the reply to requests that repair something.
type Done struct {
	// Says is what was done, in a sentence.
	Says     string   `json:"says"`
	Warnings []string `json:"warnings"`
}

// ParkedPage has work that kept failing, the oldest first. It is the reply to GET parked, with after=ID.
type ParkedPage struct {
	Work []ParkedWork `json:"work"`
	// Next is the parameter after of the next page; 0 if this is the last.
	Next uint64 `json:"next,omitempty"`
}

// ParkedWork is a piece of work that kept failing.
type ParkedWork struct {
	ID       uint64    `json:"id"`
	Time     time.Time `json:"time"`
	Subject  string    `json:"subject"`
	By       string    `json:"by"`
	Attempts uint32    `json:"attempts"`
	Error    string    `json:"error"`
	// Says is what the work is, such as "the call of finalizer example.com/bucket".
	Says string `json:"says"`
	// Object is what a call is about; nil if the work is about several objects.
	Object *Ref `json:"object,omitempty"`
}

// ChangeParked is the body of POST parked: it retries or drops work.
type ChangeParked struct {
	// Action is Retry or Drop.
	Action string   `json:"action"`
	IDs    []uint64 `json:"ids"`
}

// ParkedResult is the reply to POST parked: what failed, in the order of the request.
type ParkedResult struct {
	Done   int      `json:"done"`
	Failed []string `json:"failed"`
}
