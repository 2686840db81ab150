package explain

import (
	"cmp"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Explanation says why an object is not deleted, or why it was.
type Explanation struct {
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// State is Active, Terminating or Removed.
	State string `json:"state"`
	// Summary is the explanation in a sentence.
	Summary string `json:"summary"`
	// Since is when the object was marked, or removed.
	Since *time.Time `json:"since,omitempty"`
	// Because are the reasons, from the nearest to the command of a client; Causes
	// are the events that they are from.
	Because    []string    `json:"because,omitempty"`
	Causes     []Cause     `json:"causes,omitempty"`
	Owners     []Owner     `json:"owners,omitempty"`
	Finalizers []Finalizer `json:"finalizers,omitempty"`
	Agent      *Agent      `json:"agent,omitempty"`
	// Conditions are derived from what is known now, and are not stored.
	Conditions []Condition `json:"conditions,omitempty"`
	Dependents *Dependents `json:"dependents,omitempty"`
	// Contents are the first objects that a terminating namespace or kind still contains, at most 10.
	Contents []lookup.Remainder `json:"contents,omitempty"`
	// Uses are the uses of the object, UsedBy the objects that use it, at most 100 of
	// Users.
	Uses       []Use       `json:"uses,omitempty"`
	Users      uint64      `json:"users,omitempty"`
	UsedBy     []string    `json:"usedBy,omitempty"`
	Generation *Generation `json:"generation,omitempty"`
	// ImportEnds is the latest end of the import session. Until then the built-in
	// finalizers do not act.
	ImportEnds *time.Time `json:"importEnds,omitempty"`
	// Protected says who protects the object from deletion, and why.
	Protected string `json:"protected,omitempty"`
	// ExpiresAt is when the object expires and is deleted.
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
	// Notices are those of the object's deletion that expiry policies have given.
	Notices []Notice `json:"notices,omitempty"`
	// ExpiryPolicies are those that select the object and have given no notice.
	ExpiryPolicies []ExpiryPolicy `json:"expiryPolicies,omitempty"`
	// WaitsForProtected are protected objects for which the deletion waits, at most 10.
	WaitsForProtected []string      `json:"waitsForProtected,omitempty"`
	Pending           []PendingWork `json:"pending,omitempty"`
	// Skipped are the sequences of messages in the log that are no commits of the
	// realm; graph services skip them. Only the part of the log that was read
	// counts, and at most 100.
	Skipped []uint64 `json:"skipped,omitempty"`

	noticeTexts []string
	contents    [][]string // rows
}

// Notice is the notice of the object's deletion that an expiry policy has given.
type Notice struct {
	Policy string    `json:"policy"`
	Given  time.Time `json:"given"`
	Ends   time.Time `json:"ends"`
	// Due is when the object is deleted at the earliest; absent if it stays until someone agrees.
	Due *time.Time `json:"due,omitempty"`
	// AnsweredBy and Reason are of the last answer. VetoUntil is absent if it was an agreement.
	AnsweredBy string     `json:"answeredBy,omitempty"`
	Reason     string     `json:"reason,omitempty"`
	VetoUntil  *time.Time `json:"vetoUntil,omitempty"`
}

// ExpiryPolicy is an expiry policy that selects the object, and says what it does with it, and when.
type ExpiryPolicy struct {
	Policy string `json:"policy"`
	Says   string `json:"says"`
}

// Condition is the state of one aspect of the object.
type Condition struct {
	Type    string     `json:"type"`
	Status  string     `json:"status"`
	Reason  string     `json:"reason"`
	Message string     `json:"message"`
	Since   *time.Time `json:"since,omitempty"`
}

// Use is a use of the object. Namespace is empty unless it is another than that of the object. State is
// resolved, unresolved, absent or mismatched.
type Use struct {
	Object    string `json:"object"`
	Namespace string `json:"namespace,omitempty"`
	State     string `json:"state"`
}

// States of an object.
const (
	Active      = "Active"
	Terminating = "Terminating"
	Removed     = "Removed"
)

// Cause is an event on the way to an object's deletion.
type Cause struct {
	Revision  uint64    `json:"revision"`
	Time      time.Time `json:"time"`
	Type      string    `json:"type"`
	Resource  string    `json:"resource"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	Actor     string    `json:"actor"`
	Verb      string    `json:"verb"`
	Reason    string    `json:"reason"`
}

// Owner is an owner of the object, at depth 0, or of its owners.
type Owner struct {
	Depth        int        `json:"depth"`
	Of           string     `json:"of"`
	Owner        string     `json:"owner"`
	UID          string     `json:"uid"`
	Class        string     `json:"class"`
	Why          string     `json:"why"`
	UnknownUntil *time.Time `json:"unknownUntil,omitempty"`
	Controller   bool       `json:"controller,omitempty"`
	Blocking     bool       `json:"blocking,omitempty"`
	Terminating  bool       `json:"terminating,omitempty"`

	class coppicev1.OwnerClass
}

// Finalizer is a finalizer of the object.
type Finalizer struct {
	Name    string     `json:"name"`
	BuiltIn bool       `json:"builtIn,omitempty"`
	Since   *time.Time `json:"since,omitempty"` // since when it blocks the object
	Call

	text string
}

// Agent is the agent that has to end the object.
type Agent struct {
	Until time.Time `json:"until"`
	Call
}

// Call is the call of an external finalizer or an agent, and its consumer.
type Call struct {
	// Consumer is None, Alive, Busy, Failing or Silent; Unseen if the state could not be read.
	Consumer string `json:"consumer,omitempty"`
	Process  string `json:"process,omitempty"`
	Calls    uint64 `json:"calls,omitempty"`
	// State is what the call waits for: NoConsumer, Silent, Queued, Working, Failed or Parked. It is empty if the
	// object is not being deleted, or if the state could not be read.
	State string `json:"state,omitempty"`
	// Since is since when a program works on the call, or since when it is silent. LastError is the error of the last
	// of Failures attempts, and NextRetry when the call is delivered again.
	Since     *time.Time `json:"since,omitempty"`
	Failures  uint32     `json:"failures,omitempty"`
	LastError string     `json:"lastError,omitempty"`
	NextRetry *time.Time `json:"nextRetry,omitempty"`

	is lookup.Call
}

func callOf(consumer lookup.Consumer, c lookup.Call) Call {
	at := func(micro int64) *time.Time {
		if micro == 0 {
			return nil
		}
		t := time.UnixMicro(micro).UTC()
		return &t
	}
	s := c.Status
	return Call{
		Consumer: consumer.State.String(), Process: consumer.Process, Calls: consumer.Calls, State: strings.TrimPrefix(terminal.Camel(s.GetState().String(), "CALL_STATE_"), "Unspecified"),
		Since: at(cmp.Or(s.GetWorkingSince(), s.GetSilentSince())), Failures: s.GetFailures(), LastError: s.GetLastError(), NextRetry: at(s.GetNextRetry()), is: c,
	}
}

// Dependents are the dependents of the object.
type Dependents struct {
	All      uint64 `json:"all"`
	Blocking uint64 `json:"blocking"`
	// Unmarked counts dependents that do not block, but have still to be marked for
	// deletion or to lose their reference before the object can be removed.
	Unmarked uint64 `json:"unmarked,omitempty"`
	// Late are dependents that were created after the object was marked, by the
	// actor that created them.
	Late []LateDependents `json:"late,omitempty"`
	// Blockers are the objects that block the deletion, directly or through others.
	Blockers  []Blocker `json:"blockers,omitempty"`
	Truncated bool      `json:"truncated,omitempty"`
}

// Blocker is an object that blocks the deletion of another.
type Blocker struct {
	Object    string `json:"object"`
	UID       string `json:"uid"`
	BlockedBy string `json:"blocked,omitempty"`
}

// LateDependents are dependents that an actor created after the object was marked.
type LateDependents struct {
	Actor string `json:"actor"`
	Count int    `json:"count"`
	// Last is the last one, and when it was created.
	Last string    `json:"last"`
	Time time.Time `json:"time"`
}

// Generation is the generation that the controller of the object has to observe.
type Generation struct {
	Awaited  int64 `json:"awaited"`
	Observed int64 `json:"observed"`
}

// PendingWork is pending work of an object or of its owner: since when it is pending, and
// when it is due.
type PendingWork struct {
	Object string     `json:"object"`
	What   string     `json:"what"`
	Since  time.Time  `json:"since"`
	Due    *time.Time `json:"due,omitempty"`
}
