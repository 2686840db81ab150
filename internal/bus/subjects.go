package bus

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
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
)

// Verbs are all verbs of the object API.
func Verbs() []string {
	return []string{
		VerbCreate, VerbGet, VerbList, VerbWatch, VerbUpdate, VerbUpdateStatus, VerbPatch, VerbApply,
		VerbImport, VerbDelete, VerbDeleteCollection, VerbRemoveFinalizer, VerbResolve, VerbPlan,
		VerbStatus,
	}
}

// The operations on internal.>, each of one role.
const (
	OpResolve = "resolve" // processors, the scanner
	OpPropose = "propose" // processors
	OpOrphan  = "orphan"  // finalizers
	OpFinish  = "finish"  // finalizers
	OpEvict   = "evict"   // finalizers
	OpWalk    = "walk"    // the scanner
	OpRedrive = "redrive" // the scanner
	OpCycles  = "cycles"  // the scanner
	OpVerify  = "verify"  // operators
)

// The queues on work.>.
const (
	QueueDirty  = "dirty"  // coppice.v1.DirtyChunk, to processors
	QueueOrphan = "orphan" // coppice.v1.OrphanChunk, to finalizers
	QueueFinish = "finish" // coppice.v1.FinishChunk, to finalizers
	QueueEvict  = "evict"  // coppice.v1.EvictChunk, to finalizers
)

// Headers of requests and replies.
const (
	// HeaderCommand identifies a command, a UUID: a repeated command gets
	// its first outcome.
	HeaderCommand = "Coppice-Command"
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

// NamespaceToken is a namespace as a token.
func NamespaceToken(namespace string) string {
	if namespace == "" {
		return "_"
	}
	return namespace
}

// API is a subject of the object API.
type API struct {
	Realm, Actor, Verb       string
	Group, Plural, Namespace string
	// Finalizer is what removefinalizer removes.
	Finalizer string
}

// Subject spells the subject.
func (a API) Subject() string {
	s := strings.Join([]string{root, a.Realm, "api", a.Actor, a.Verb, GroupToken(a.Group), a.Plural, NamespaceToken(a.Namespace)}, ".")
	if a.Finalizer != "" {
		s += "." + a.Finalizer
	}
	return s
}

// RealmAPI is a request about the realm itself, not about objects of a kind.
func RealmAPI(realm, actor, verb string) API {
	return API{Realm: realm, Actor: actor, Verb: verb, Plural: "_"}
}

// ErrSubject is returned for a subject that is not one of ours.
var ErrSubject = errors.New("not a subject of the object API")

// ParseAPI reads a subject of the object API.
func ParseAPI(subject string) (API, error) {
	t := strings.SplitN(subject, ".", 9)
	if len(t) < 8 || t[0] != root || t[2] != "api" {
		return API{}, fmt.Errorf("%w: %s", ErrSubject, subject)
	}
	a := API{Realm: t[1], Actor: t[3], Verb: t[4], Group: GroupOfToken(t[5]), Plural: t[6]}
	if t[7] != "_" {
		a.Namespace = t[7]
	}
	if len(t) == 9 {
		a.Finalizer = t[8]
	}
	if (a.Finalizer != "") != (a.Verb == VerbRemoveFinalizer) {
		return API{}, fmt.Errorf("%w: %s: removefinalizer, and it alone, names a finalizer", ErrSubject, subject)
	}
	return a, nil
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
	if verb == VerbRemoveFinalizer {
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
	if uid == "" {
		uid = "*"
	}
	return strings.Join([]string{root, realm, "warning", "*", "*", "*", uid, "*"}, ".")
}

// ParkedSubject is where a message is parked that came on the subject, with
// that sequence. Calls of external finalizers have a subject each; chunks of
// work share theirs, and are told apart by the sequence.
func ParkedSubject(realm, subject string, sequence uint64) string {
	prefix := root + "." + realm + "."
	rest := strings.TrimPrefix(subject, prefix)
	if strings.HasPrefix(rest, "work.") {
		rest += "." + strconv.FormatUint(sequence, 10)
	}
	return prefix + "parked." + rest
}
