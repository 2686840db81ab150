package bus

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const root = "coppice"

// DefaultRealm is the realm of clients and services that name none.
const DefaultRealm = "default"

// SystemRealm stands in the place of a realm in the subjects of requests about the list of
// realms. It is not the name of a realm.
const SystemRealm = "_system"

// CyclesTimeout is the maximum duration of a search for cycles, which reads every object
// that has dependents.
const CyclesTimeout = 10 * time.Minute

// CheckRealm returns an error if a realm's name is invalid.
func CheckRealm(realm string) error {
	inside := func(c byte) bool { return isLower(c) || isDigit(c) || c == '-' }
	if n := len(realm); n == 0 || n > 32 || !all(realm, inside) || realm[0] == '-' || realm[n-1] == '-' {
		return fmt.Errorf("%q is not the name of a realm: at most 32 lower case letters, digits and hyphens, starting and ending with a letter or digit", realm)
	}
	if realm == "instance" {
		return fmt.Errorf("%q is not the name of a realm: graph services have a file of that name", realm)
	}
	return nil
}

// CheckActor returns an error if an actor's name is invalid.
func CheckActor(actor string) error {
	inside := func(c byte) bool { return isLower(c) || isLower(c|0x20) || isDigit(c) || c == '-' || c == '_' }
	if n := len(actor); n == 0 || n > 63 || !all(actor, inside) {
		return fmt.Errorf("%q is not the name of an actor: at most 63 letters, digits, hyphens and underscores", actor)
	}
	return nil
}

// all reports whether is returns true for all bytes. Names are checked for each request;
// regular expressions would be slow.
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

// GroupToken returns the token of a group.
func GroupToken(group string) string {
	if group == "" {
		return "_"
	}
	return strings.ReplaceAll(group, ".", "_")
}

// GroupOfToken returns the group of a token: the inverse of GroupToken.
func GroupOfToken(token string) string {
	if token == "_" {
		return ""
	}
	return strings.ReplaceAll(token, "_", ".")
}

// PluralToken returns the token of a kind's plural.
func PluralToken(plural string) string {
	if plural == "" {
		return "_"
	}
	return plural
}

// NamespaceToken returns the token of a namespace.
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
	// Finalizer is the finalizer of removefinalizer, forcefinalizer and consumefinalizer, the name
	// of the program of consumeexpiry, and empty for other verbs.
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

// CheckTarget returns an error if the names in a would make its subject that of another request, in which _
// stands for no name, or for all namespaces, and for the dots of a group.
func (a API) CheckTarget() error {
	switch {
	case strings.ContainsFunc(a.Group, func(r rune) bool { return r == '_' || r != '.' && separates(r) }):
		return fmt.Errorf("%q is not a group: lower case letters, digits, hyphens and dots, such as storage.example.com", a.Group)
	case a.Plural == "_" || strings.ContainsFunc(a.Plural, separates):
		return fmt.Errorf("%q is not the plural of a kind: lower case letters, digits and hyphens, such as pods", a.Plural)
	case a.Namespace == "_" || strings.ContainsFunc(a.Namespace, separates):
		return fmt.Errorf("%q is not the name of a namespace: at most 63 lower case letters, digits and hyphens, starting and ending with a letter or digit", a.Namespace)
	case a.Finalizer == "" && NamesFinalizer(a.Verb):
		return fmt.Errorf("%s: the name behind the namespace is empty; write one such as %s", a.Verb, ExampleFinalizer)
	}
	return nil
}

// separates reports whether a character has a meaning in subjects.
func separates(r rune) bool { return r <= ' ' || r == 0x7f || r == '.' || r == '*' || r == '>' }

// RealmAPI returns the subject of a request about the realm itself.
func RealmAPI(realm, actor, verb string) API {
	return API{Realm: realm, Actor: actor, Verb: verb}
}

// ErrSubject is returned for a subject that is not of the object API.
var ErrSubject = errors.New("not a subject of the object API")

// ParseAPI parses a subject of the object API.
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
		return API{}, fmt.Errorf("%w: %s: removefinalizer, forcefinalizer, consumefinalizer and consumeexpiry, and no other verb, have a name behind the namespace", ErrSubject, subject)
	}
	return a, nil
}

// RequestName returns the verb or the internal operation in the subject of a request, which
// HeaderRequest must equal. It is empty for other subjects.
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

// RealmOf returns the realm of a subject of Coppice, empty for other subjects.
func RealmOf(subject string) string {
	if t := strings.SplitN(subject, ".", 3); len(t) == 3 && t[0] == root {
		return t[1]
	}
	return ""
}

// RealmsAPI returns the subject of a request about the list of realms: about one realm, or
// about all if the realm is empty.
func RealmsAPI(realm, actor, verb string) API {
	if realm == "" {
		realm = SystemRealm
	}
	return RealmAPI(realm, actor, verb)
}

// APIPattern returns the pattern of the requests of one verb.
func APIPattern(realm, verb string) string {
	p := strings.Join([]string{root, realm, "api", "*", verb, "*", "*", "*"}, ".")
	if NamesFinalizer(verb) {
		p += ".>"
	}
	return p
}

// InternalSubject returns the subject of an internal operation.
func InternalSubject(realm, op string) string { return root + "." + realm + ".internal." + op }

// LogSubject returns the subject of the realm's log.
func LogSubject(realm string) string { return root + "." + realm + ".log" }

// WorkSubject returns the subject of a queue.
func WorkSubject(realm, queue string) string { return root + "." + realm + ".work." + queue }

// Warning is the subject of a warning.
type Warning struct {
	Realm, Group, Plural, Namespace, UID, Reason string
}

// Subject spells the subject.
func (w Warning) Subject() string {
	return strings.Join([]string{root, w.Realm, "warning", GroupToken(w.Group), w.Plural, NamespaceToken(w.Namespace), w.UID, w.Reason}, ".")
}

// ParseWarning parses the subject of a warning.
func ParseWarning(subject string) (w Warning, ok bool) {
	t := strings.Split(subject, ".")
	if len(t) != 8 || t[0] != root || t[2] != "warning" {
		return w, false
	}
	w = Warning{Realm: t[1], Group: GroupOfToken(t[3]), Plural: t[4], UID: t[6], Reason: t[7]}
	if t[5] != "_" {
		w.Namespace = t[5]
	}
	return w, true
}

// WarningFilter returns the pattern of the warnings about an object, or of all warnings if
// uid is empty.
func WarningFilter(realm, uid string) string {
	return WarningsOf(realm, "*", "*", "*", uid)
}

// WarningsOf returns the pattern of the warnings about the objects of a resource in a
// namespace, with a uid unless that is empty. group, plural and namespace may be "*".
func WarningsOf(realm, group, plural, namespace, uid string) string {
	if uid == "" {
		uid = "*"
	}
	return Warning{Realm: realm, Group: group, Plural: plural, Namespace: namespace, UID: uid, Reason: "*"}.Subject()
}

// ParkedSubject returns the subject on which a message with the subject and the sequence is
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

// Unparked returns the original subject of a message that is parked on a subject: the
// inverse of ParkedSubject. ok is false for any other subject.
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

// QueueOf returns the queue of a WorkSubject.
func QueueOf(subject string) (queue string, ok bool) {
	t := strings.Split(subject, ".")
	return t[len(t)-1], len(t) == 4 && t[2] == "work"
}
