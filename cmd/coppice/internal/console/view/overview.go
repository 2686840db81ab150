package view

import "time"

// Overview is what needs attention in a realm.
type Overview struct {
	Realm    string    `json:"realm"`
	Revision uint64    `json:"revision"`
	Time     time.Time `json:"time"`
	// Loading: the objects of the realm are still being read, and what is below counts those that have been.
	Loading bool `json:"loading,omitempty"`
	// Partial: the user may not get all objects of the realm, and what is below is about those that it may get.
	Partial     bool   `json:"partial,omitempty"`
	Objects     uint64 `json:"objects"`
	Terminating uint64 `json:"terminating"`
	// Garbage counts the objects that are not being deleted yet, and whose owners are all gone.
	Garbage uint64 `json:"garbage"`
	// Writer is the graph service that writes the realm, as it names itself; empty if there is none, or if that is not known.
	Writer string `json:"writer,omitempty"`
	// Paused: the realm was restored, and deletes nothing until it is resumed.
	Paused bool `json:"paused,omitempty"`
	// Deletions are in progress, those with the most objects first; at most 20 of DeletionsTotal.
	Deletions      []Deletion `json:"deletions"`
	DeletionsTotal int        `json:"deletionsTotal"`
	// Stuck are the reasons why objects are not deleted, the oldest first.
	Stuck []Stuck `json:"stuck"`
	// Longest are the objects that have been terminating for the longest time, at most 10.
	Longest    []Terminating    `json:"longest"`
	Finalizers []FinalizerInUse `json:"finalizers"`
	// Warnings are the newest, one for each object and reason; at most 50 of WarningsTotal.
	Warnings      []Warning `json:"warnings"`
	WarningsTotal int       `json:"warningsTotal"`
	Services      []Service `json:"services"`
	Storage       *Storage  `json:"storage,omitempty"`
	// Missing are the parts that could not be read.
	Missing []Missing `json:"missing"`
}

// Ref names an object. UID may be empty in what comes from text.
type Ref struct {
	// Resource is the plural and the group, such as "deployments.apps".
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// Deletion is a deletion in progress: an object that is being deleted, or was, and what goes with it.
type Deletion struct {
	Root Ref `json:"root"`
	// Gone: the root itself was removed.
	Gone  bool      `json:"gone,omitempty"`
	Began time.Time `json:"began"`
	// Remaining counts the objects that go with the root and are still there, with the root itself.
	Remaining uint64 `json:"remaining"`
	// Removed counts those that were removed since this console has followed the deletion.
	Removed uint64 `json:"removed"`
	// Rate is the number of objects removed in a second, over the last 10 seconds.
	Rate float64 `json:"rate"`
	// Blocked counts the remaining objects that wait for a finalizer, an agent or a protected object.
	Blocked uint64 `json:"blocked"`
}

// Stuck is a reason why objects are not deleted.
type Stuck struct {
	// Blocker is Writer, if no graph service writes the realm, or Finalizer, Agent, UnknownOwner, OtherNamespace, Cycle, Parked, Paused, Brake or Protected.
	Blocker string `json:"blocker"`
	// Subject is the finalizer, the kind of the agent or brake, or empty.
	Subject string `json:"subject,omitempty"`
	// Says is the reason in a sentence.
	Says string `json:"says"`
	// Objects counts the objects that wait; 0 if that is not known.
	Objects uint64 `json:"objects"`
	// Oldest is since when the first of them waits.
	Oldest *time.Time `json:"oldest,omitempty"`
	// Examples are the objects that have waited for the longest time, at most 5.
	Examples []Terminating `json:"examples"`
	Cure     Cure          `json:"cure"`
}

// Cure says what ends a problem.
type Cure struct {
	Says string `json:"says"`
	// Command is a command line of coppice; empty if there is none.
	Command string `json:"command,omitempty"`
}

// Terminating is an object that is being deleted, or should be.
type Terminating struct {
	Ref
	Since time.Time `json:"since"`
	// WaitsFor says what the object waits for, such as "finalizer example.com/bucket"; empty if that is not known.
	WaitsFor string `json:"waitsFor,omitempty"`
}

// FinalizerInUse is an external finalizer that objects have.
type FinalizerInUse struct {
	Name        string     `json:"name"`
	Objects     uint64     `json:"objects"`
	Terminating uint64     `json:"terminating"`
	Oldest      *time.Time `json:"oldest,omitempty"`
	// Consumer is None, Alive, Busy, Failing or Silent; Unseen if that could not be read.
	Consumer string `json:"consumer"`
	// Says is the state of the consumer in words.
	Says string `json:"says"`
}

// Warning is a warning about an object, or about the realm if the name is empty.
type Warning struct {
	Ref
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Time    time.Time `json:"time"`
}

// Service is a service whose health this console reads.
type Service struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Ready   bool   `json:"ready"`
	// Waiting is what it waits for, or why its health cannot be read.
	Waiting string `json:"waiting,omitempty"`
	// Revision is the revision of the realm that a graph service has reached; 0 for other services.
	Revision uint64 `json:"revision,omitempty"`
	// Lag is how many revisions it is behind the graph service that has reached the highest.
	Lag uint64 `json:"lag,omitempty"`
}

// Storage is what a realm takes on disks.
type Storage struct {
	LogBytes      uint64 `json:"logBytes"`
	StateBytes    uint64 `json:"stateBytes"`
	ArchiveBytes  uint64 `json:"archiveBytes"`
	Archived      bool   `json:"archived"`
	ArchiveError  string `json:"archiveError,omitempty"`
	DiskBytes     uint64 `json:"diskBytes"`
	DiskFreeBytes uint64 `json:"diskFreeBytes"`
	CutWaits      string `json:"cutWaits,omitempty"`
}

// Missing is a part that could not be read, and why.
type Missing struct {
	Part string `json:"part"`
	Why  string `json:"why"`
}
