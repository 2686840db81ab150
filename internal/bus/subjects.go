package bus

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const root = "coppice"

// DefaultRealm is the realm of who names none.
const DefaultRealm = "default"

// The verbs of the object API, tokens of its subjects.
const (
	VerbCreate           = "create"
	VerbGet              = "get"
	VerbList             = "list"
	VerbWatch            = "watch"
	VerbUpdate           = "update"
	VerbUpdateStatus     = "updatestatus"
	VerbPatch            = "patch"
	VerbApply            = "apply"
	VerbImport           = "import"
	VerbDelete           = "delete"
	VerbDeleteCollection = "deletecollection"
	VerbRemoveFinalizer  = "removefinalizer"
	VerbResolve          = "resolve"
	VerbPlan             = "plan"
	VerbStatus           = "status"

	VerbConsumeFinalizer = "consumefinalizer" // creates the consumer of an external finalizer, which its subject ends with
	VerbConsumeAgent     = "consumeagent"     // creates the consumer of a kind's agent; its subject names the kind
	VerbReadLog          = "readlog"
	VerbReadWarnings     = "readwarnings"
	VerbListConsumers    = "listconsumers"
	VerbListParked       = "listparked"
	VerbRetryParked      = "retryparked"
	VerbDropParked       = "dropparked"
	VerbVerify           = "verify"
)

// Verbs are all verbs of the object API.
func Verbs() []string {
	return []string{
		VerbCreate, VerbGet, VerbList, VerbWatch, VerbUpdate, VerbUpdateStatus, VerbPatch, VerbApply,
		VerbImport, VerbDelete, VerbDeleteCollection, VerbRemoveFinalizer, VerbResolve, VerbPlan,
		VerbStatus,
		VerbConsumeFinalizer, VerbConsumeAgent, VerbReadLog, VerbReadWarnings, VerbListConsumers,
		VerbListParked, VerbRetryParked, VerbDropParked, VerbVerify,
	}
}

// IsStream reports whether the reply to a verb is a stream of messages, at
// least one every 30 s, which an empty message without headers ends. Across
// accounts the export of such a verb has the response type stream.
func IsStream(verb string) bool {
	switch verb {
	case VerbWatch, VerbReadLog, VerbReadWarnings, VerbVerify:
		return true
	}
	return false
}

// NamesFinalizer reports whether the subject of a verb ends with the name of a
// finalizer.
func NamesFinalizer(verb string) bool {
	return verb == VerbRemoveFinalizer || verb == VerbConsumeFinalizer
}

// The operations on internal.>, each of one role.
const (
	OpResolve   = "resolve"   // processors, the scanner
	OpPropose   = "propose"   // processors
	OpOrphan    = "orphan"    // finalizers
	OpFinish    = "finish"    // finalizers
	OpDrain     = "drain"     // finalizers
	OpWalk      = "walk"      // the scanner
	OpRepublish = "republish" // the scanner
	OpCycles    = "cycles"    // the scanner
)

// The queues on work.>.
const (
	QueueDirty  = "dirty"  // coppice.v1.DirtyChunk, to processors
	QueueOrphan = "orphan" // coppice.v1.OrphanChunk, to finalizers
	QueueFinish = "finish" // coppice.v1.FinishChunk, to finalizers
	QueueDrain  = "drain"  // coppice.v1.DrainChunk, to finalizers
)

// Headers of requests and replies.
const (
	// HeaderCommand identifies a command of an actor, a UUIDv7: a repeated command
	// gets its first outcome.
	HeaderCommand = "Coppice-Command"
	// HeaderRequest names the verb, or the internal operation, of a request.
	// Without it a message is not a request: answers do not have it, so no
	// answer that is sent to a request's subject has an effect.
	HeaderRequest = "Coppice-Request"
	// HeaderTime is the server's time, Unix milliseconds, in a refusal on account of
	// the time in a command's id.
	HeaderTime = "Coppice-Time"
	// HeaderContentType says how the body is encoded; protobuf without it.
	HeaderContentType = "Content-Type"
	// HeaderReason is the machine-readable reason of an error; its code and
	// its message are in the micro service headers.
	HeaderReason = "Coppice-Reason"
	// HeaderRetryAfter is when the request may succeed, in milliseconds.
	HeaderRetryAfter = "Coppice-Retry-After"

	ContentJSON     = "application/json"
	ContentProtobuf = "application/protobuf"
)

// Protocol is the version of the request format: what every request has in its
// field of that name.
const Protocol = 1

// CyclesTimeout is how long a search for cycles may take, which looks at every
// object.
const CyclesTimeout = 10 * time.Minute

// CheckRealm checks the name of a realm.
func CheckRealm(realm string) error {
	inside := func(c byte) bool { return isLower(c) || isDigit(c) || c == '-' }
	if n := len(realm); n == 0 || n > 32 || !all(realm, inside) || realm[0] == '-' || realm[n-1] == '-' {
		return fmt.Errorf("%q is not the name of a realm: at most 32 lower case letters, digits and hyphens, starting and ending with a letter or digit", realm)
	}
	return nil
}

// CheckActor checks the name of an actor.
func CheckActor(actor string) error {
	inside := func(c byte) bool { return isLower(c) || isLower(c|0x20) || isDigit(c) || c == '-' || c == '_' }
	if n := len(actor); n == 0 || n > 63 || !all(actor, inside) {
		return fmt.Errorf("%q is not the name of an actor: at most 63 letters, digits, hyphens and underscores", actor)
	}
	return nil
}

// all reports whether all bytes are such. Names are checked with each request, for
// which regular expressions are slow.
func all(s string, is func(c byte) bool) bool {
	for i := range len(s) {
		if !is(s[i]) {
			return false
		}
	}
	return true
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// GroupToken is a group as a token.
func GroupToken(group string) string {
	if group == "" {
		return "_"
	}
	return strings.ReplaceAll(group, ".", "_")
}

// GroupOfToken is the group that GroupToken spelled.
func GroupOfToken(token string) string {
	if token == "_" {
		return ""
	}
	return strings.ReplaceAll(token, "_", ".")
}

// PluralToken is the plural of a kind as a token.
func PluralToken(plural string) string {
	if plural == "" {
		return "_"
	}
	return plural
}

// NamespaceToken is a namespace as a token.
func NamespaceToken(namespace string) string {
	if namespace == "" {
		return "_"
	}
	return namespace
}

// API is a subject of the object API. Verbs about a realm rather than its
// objects leave Group, Plural and Namespace empty.
type API struct {
	Realm, Actor, Verb       string
	Group, Plural, Namespace string
	// Finalizer is what removefinalizer removes, and whose calls
	// consumefinalizer is about.
	Finalizer string
}

// Subject spells the subject.
func (a API) Subject() string {
	s := strings.Join([]string{root, a.Realm, "api", a.Actor, a.Verb, GroupToken(a.Group), PluralToken(a.Plural), NamespaceToken(a.Namespace)}, ".")
	if a.Finalizer != "" {
		s += "." + a.Finalizer
	}
	return s
}

// RealmAPI is a request about the realm itself, not about objects of a kind.
func RealmAPI(realm, actor, verb string) API {
	return API{Realm: realm, Actor: actor, Verb: verb}
}

// ErrSubject is returned for a subject that is not one of ours.
var ErrSubject = errors.New("not a subject of the object API")

// ParseAPI reads a subject of the object API.
func ParseAPI(subject string) (API, error) {
	t := strings.SplitN(subject, ".", 9)
	if len(t) < 8 || t[0] != root || t[2] != "api" {
		return API{}, fmt.Errorf("%w: %s", ErrSubject, subject)
	}
	a := API{Realm: t[1], Actor: t[3], Verb: t[4], Group: GroupOfToken(t[5])}
	if t[6] != "_" {
		a.Plural = t[6]
	}
	if t[7] != "_" {
		a.Namespace = t[7]
	}
	if len(t) == 9 {
		a.Finalizer = t[8]
	}
	if (a.Finalizer != "") != NamesFinalizer(a.Verb) {
		return API{}, fmt.Errorf("%w: %s: removefinalizer and consumefinalizer, and no other verb, name a finalizer", ErrSubject, subject)
	}
	return a, nil
}

// RequestName is the verb, or the internal operation, that a request's subject
// names: what HeaderRequest must say. It is empty for any other subject.
func RequestName(subject string) string {
	rest, ok := strings.CutPrefix(subject, root+".")
	if !ok {
		return ""
	}
	_, rest, _ = strings.Cut(rest, ".") // the realm
	family, rest, _ := strings.Cut(rest, ".")
	switch family {
	case "internal":
		return rest
	case "api":
		_, rest, _ = strings.Cut(rest, ".") // the actor
		verb, _, _ := strings.Cut(rest, ".")
		return verb
	}
	return ""
}

// RealmOf is the realm of any of our subjects, empty if it is not one.
func RealmOf(subject string) string {
	if t := strings.SplitN(subject, ".", 3); len(t) == 3 && t[0] == root {
		return t[1]
	}
	return ""
}

// APIPattern matches the requests of one verb.
func APIPattern(realm, verb string) string {
	p := strings.Join([]string{root, realm, "api", "*", verb, "*", "*", "*"}, ".")
	if NamesFinalizer(verb) {
		p += ".>"
	}
	return p
}

// InternalSubject is the subject of an operation.
func InternalSubject(realm, op string) string { return root + "." + realm + ".internal." + op }

// LogSubject is the subject of the realm's log.
func LogSubject(realm string) string { return root + "." + realm + ".log" }

// WorkSubject is the subject of a queue.
func WorkSubject(realm, queue string) string { return root + "." + realm + ".work." + queue }

// Finalize is the subject of a call to an external finalizer.
type Finalize struct {
	Realm, Group, Plural, UID, Finalizer string
}

// Subject spells the subject.
func (f Finalize) Subject() string {
	return strings.Join([]string{root, f.Realm, "finalize", GroupToken(f.Group), f.Plural, f.UID, f.Finalizer}, ".")
}

// FinalizeFilter matches the calls to one external finalizer.
func FinalizeFilter(realm, finalizer string) string {
	return strings.Join([]string{root, realm, "finalize", "*", "*", "*", finalizer}, ".")
}

// Terminate is the subject of a call to the agent of a kind with graceful
// deletion.
type Terminate struct {
	Realm, Group, Plural, UID string
}

// Subject spells the subject.
func (t Terminate) Subject() string {
	return strings.Join([]string{root, t.Realm, "terminate", GroupToken(t.Group), t.Plural, t.UID}, ".")
}

// TerminateFilter matches the calls to the agent of one kind.
func TerminateFilter(realm, group, plural string) string {
	return Terminate{Realm: realm, Group: group, Plural: plural, UID: "*"}.Subject()
}

// ParseCall reads the subject of a call: the uid of its object, and the durable
// consumer of the finalizer or agent that is called.
func ParseCall(subject string) (uid, durable string, ok bool) {
	t := strings.SplitN(subject, ".", 7)
	switch {
	case len(t) == 7 && t[0] == root && t[2] == "finalize":
		return t[5], FinalizerDurable(t[6]), true
	case len(t) == 6 && t[0] == root && t[2] == "terminate":
		return t[5], AgentDurable(GroupOfToken(t[3]), t[4]), true
	}
	return "", "", false
}

// Warning is the subject of a warning.
type Warning struct {
	Realm, Group, Plural, Namespace, UID, Reason string
}

// Subject spells the subject.
func (w Warning) Subject() string {
	return strings.Join([]string{root, w.Realm, "warning", GroupToken(w.Group), w.Plural, NamespaceToken(w.Namespace), w.UID, w.Reason}, ".")
}

// WarningFilter matches the warnings about an object, or all without a uid.
func WarningFilter(realm, uid string) string {
	return WarningsOf(realm, "*", "*", "*", uid)
}

// WarningsOf matches the warnings about the objects of a resource, which may be
// "*" in both parts, in a namespace, which may be "*", with a uid, if it is not
// empty.
func WarningsOf(realm, group, plural, namespace, uid string) string {
	if uid == "" {
		uid = "*"
	}
	return Warning{Realm: realm, Group: group, Plural: plural, Namespace: namespace, UID: uid, Reason: "*"}.Subject()
}

// ParkedSubject is the subject on which a message with the subject and the sequence is
// parked. Each call of an external finalizer has a subject of its own; chunks of work share
// one, and are distinguished by the sequence.
func ParkedSubject(realm, subject string, sequence uint64) string {
	prefix := root + "." + realm + "."
	rest := strings.TrimPrefix(subject, prefix)
	if strings.HasPrefix(rest, "work.") {
		rest += "." + strconv.FormatUint(sequence, 10)
	}
	return prefix + "parked." + rest
}

// Unparked is the subject from which a message was parked that is parked on
// this one: the inverse of ParkedSubject. It reports false for any other subject.
func Unparked(realm, parked string) (subject string, ok bool) {
	prefix := root + "." + realm + "."
	rest, ok := strings.CutPrefix(parked, prefix+"parked.")
	if !ok {
		return "", false
	}
	switch sort, of, _ := strings.Cut(rest, "."); sort {
	case "work":
		queue, _, ok := strings.Cut(of, ".")
		return WorkSubject(realm, queue), ok
	case "finalize", "terminate":
		return prefix + rest, of != ""
	}
	return "", false
}

// PullSubject is where pull requests of a durable consumer are published.
func PullSubject(stream, durable string) string {
	return "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + durable
}

// AckSubjects matches the subjects on which messages of a durable consumer are
// acknowledged, or reported as in progress.
func AckSubjects(stream, durable string) string { return "$JS.ACK." + stream + "." + durable + ".>" }

// QueueOf is the queue of a WorkSubject.
func QueueOf(subject string) (queue string, ok bool) {
	t := strings.Split(subject, ".")
	return t[len(t)-1], len(t) == 4 && t[2] == "work"
}

// FinalizerOfFilter is the finalizer of a FinalizeFilter.
func FinalizerOfFilter(filter string) (finalizer string, ok bool) {
	t := strings.SplitN(filter, ".", 7)
	return t[len(t)-1], len(t) == 7 && t[2] == "finalize"
}

// AgentOfFilter is the group and the plural of a TerminateFilter.
func AgentOfFilter(filter string) (group, plural string, ok bool) {
	t := strings.Split(filter, ".")
	if len(t) != 6 || t[2] != "terminate" {
		return "", "", false
	}
	return GroupOfToken(t[3]), t[4], true
}
