package bus

import (
	"strconv"
	"strings"
)

// Finalize is the subject of a call to an external finalizer.
type Finalize struct {
	Realm, Group, Plural, UID, Finalizer string
}

// Subject spells the subject.
func (f Finalize) Subject() string {
	return strings.Join([]string{root, f.Realm, "finalize", GroupToken(f.Group), f.Plural, f.UID, f.Finalizer}, ".")
}

// FinalizeFilter returns the pattern of the calls to one external finalizer.
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

// TerminateFilter returns the pattern of the calls to the agent of one kind.
func TerminateFilter(realm, group, plural string) string {
	return Terminate{Realm: realm, Group: group, Plural: plural, UID: "*"}.Subject()
}

// Expire is the subject of a call about the notice that an expiry policy has given for an object.
// Name is what the policy names as the program to be called.
type Expire struct {
	Realm, Group, Plural, UID, Name string
}

// Subject spells the subject.
func (e Expire) Subject() string {
	return strings.Join([]string{root, e.Realm, "expire", GroupToken(e.Group), e.Plural, e.UID, e.Name}, ".")
}

// ExpireFilter returns the pattern of the calls about notices to one program.
func ExpireFilter(realm, name string) string {
	return strings.Join([]string{root, realm, "expire", "*", "*", "*", name}, ".")
}

// ExpireCalls returns the pattern of all calls about notices in a realm.
func ExpireCalls(realm string) string { return under(realm, "expire.>") }

// ParseExpire returns the uid of the object in the subject of a call about a notice, and the name
// of the program.
func ParseExpire(subject string) (uid, name string, ok bool) {
	t := strings.SplitN(subject, ".", 7)
	if len(t) != 7 || t[0] != root || t[2] != "expire" {
		return "", "", false
	}
	return t[5], t[6], true
}

// ParseCall parses the subject of a call. It returns the uid of the object, and the durable
// consumer of the finalizer or agent.
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

// ObjectOfCall returns the resource and the uid of the object of a call, of a finalizer, an agent or a notice, by its subject.
func ObjectOfCall(subject string) (resource, uid string, ok bool) {
	t := strings.SplitN(subject, ".", 7)
	if len(t) < 6 || t[0] != root || t[2] != "finalize" && t[2] != "terminate" && t[2] != "expire" {
		return "", "", false
	}
	if resource = t[4]; t[3] != "_" {
		resource += "." + GroupOfToken(t[3])
	}
	return resource, t[5], true
}

// PullSubject returns the subject of the pull requests of a durable consumer.
func PullSubject(stream, durable string) string {
	return "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + durable
}

// CallAcks returns the pattern of the subjects on which the calls of a realm are acknowledged or reported as in progress.
func CallAcks(realm string) string { return "$JS.ACK." + FinalizeStream(realm) + ".>" }

// Ack is the acknowledgement of a message, or a report about it.
type Ack struct {
	Durable  string // the consumer
	Attempt  int    // deliveries of the message, this one included
	Sequence uint64 // of the message in its stream
}

// ParseAck parses the subject of an acknowledgement.
func ParseAck(subject string) (a Ack, ok bool) {
	t := strings.Split(subject, ".")
	if len(t) != 9 || t[0] != "$JS" || t[1] != "ACK" {
		return a, false
	}
	attempt, err := strconv.Atoi(t[4])
	sequence, fail := strconv.ParseUint(t[5], 10, 64)
	return Ack{Durable: t[3], Attempt: attempt, Sequence: sequence}, err == nil && fail == nil
}

// StreamInfoSubject returns the subject on which a NATS server describes a stream.
func StreamInfoSubject(stream string) string { return "$JS.API.STREAM.INFO." + stream }

// AckSubjects returns the pattern of the subjects on which messages of a durable consumer
// are acknowledged or reported as in progress.
func AckSubjects(stream, durable string) string { return "$JS.ACK." + stream + "." + durable + ".>" }

// FinalizerOfFilter returns the finalizer of a FinalizeFilter.
func FinalizerOfFilter(filter string) (finalizer string, ok bool) {
	t := strings.SplitN(filter, ".", 7)
	return t[len(t)-1], len(t) == 7 && t[2] == "finalize"
}

// AgentOfFilter returns the group and the plural of a TerminateFilter.
func AgentOfFilter(filter string) (group, plural string, ok bool) {
	t := strings.Split(filter, ".")
	if len(t) != 6 || t[2] != "terminate" {
		return "", "", false
	}
	return GroupOfToken(t[3]), t[4], true
}
