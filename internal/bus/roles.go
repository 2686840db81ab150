package bus

import (
	"slices"
	"strings"
)

// Role is the purpose and the permissions of a connection. What the lists do not allow is
// forbidden. Replies are sent to a private inbox, so that no role can read the replies to
// another.
type Role struct {
	// Name is the name of the user, and its actor in the object API.
	Name string
	// About describes the user of the role.
	About string
	// Publish and Subscribe are patterns of subjects.
	Publish, Subscribe []string
	// Deny removes patterns from Publish.
	Deny []string
	// Core: its users are in CoreAccount. Every other role has an account of its own.
	Core bool
	// OfFile: the user is one of a users file. Its account, UsersAccount, imports all requests of the verbs that it has, of
	// which its permissions allow some, so that other rules need no other account.
	OfFile bool
	// Login is how the user proves who it is, if that is not the password of its name.
	Login Login
}

// Login is the credential of a user. At most one of its fields is set.
type Login struct {
	NKey     string // the public key
	Variable string // that has the password
	Hash     string // of the password, by bcrypt
}

// UsersAccount returns the account of a user of a users file. No actor has such a name: so a graph service without the
// file refuses the requests of this user, whose permissions in NATS are only a part of its rules.
func UsersAccount(user string) string { return "users." + user }

// Account returns the name of the account of the role.
func (r *Role) Account() string {
	switch {
	case r.Core:
		return CoreAccount
	case r.OfFile:
		return UsersAccount(r.Name)
	}
	return r.Name
}

// UserRole returns the role of a user of a users file.
func UserRole(name, about string, publish, deny []string) Role {
	return Role{Name: name, About: about, Publish: publish, Deny: deny, OfFile: true}.withInbox()
}

// The names of the roles of services, and of those that deployments begin with.
const (
	RoleGraph       = "graph"
	RoleAnswers     = "graph-answers"
	RoleProcessor   = "processor"
	RoleScanner     = "scanner"
	RoleFinalizers  = "finalizers"
	RoleFinalizer   = "finalizer" // an external one
	RoleAgent       = "agent"     // of a kind with graceful deletion
	RoleApplication = "application"
	RoleReader      = "reader"
	RoleViewer      = "viewer"
	RoleOperator    = "operator"
	RoleAdmin       = "admin"
	RoleBench       = "bench"
)

// ExampleFinalizer is the finalizer of the external finalizer's role in deployments that do
// not name one.
const ExampleFinalizer = "example.com/bucket"

// ExampleAgent is the plural of the kind of the agent's role in such
// deployments, in the core group.
const ExampleAgent = "pods"

// InboxPrefix returns the prefix of a user's private inboxes.
func InboxPrefix(user string) string { return "_INBOX." + user }

// Roles returns the roles of a deployment of these realms, in the order of its
// configuration.
func Roles(realms ...string) []Role {
	return append(ServiceRoles(realms...),
		FinalizerRole(RoleFinalizer, ExampleFinalizer, realms...), AgentRole(RoleAgent, "", ExampleAgent, realms...),
		ApplicationRole(RoleApplication, realms...), ReaderRole(RoleReader, realms...), ViewerRole(RoleViewer, realms...), OperatorRole(RoleOperator, realms...),
	)
}

// ServiceRoles returns the roles of Coppice's own services.
func ServiceRoles(realms ...string) []Role {
	return []Role{GraphRole(realms...), AnswersRole(realms...), ProcessorRole(realms...), ScannerRole(realms...), FinalizersRole(realms...)}
}

// ObjectStores is the pattern of the subjects of all NATS object stores, of which one may be the
// archive. Their streams are reached like all others.
const ObjectStores = "$O.>"

// GraphRole returns the role of the graph service. Only this role writes the log and
// manages streams and leases. It does not serve requests: see AnswersRole.
func GraphRole(realms ...string) Role {
	r := Role{
		Name:    RoleGraph,
		Core:    true,
		About:   "graph service: writes the log and its archive, owns streams and leases",
		Publish: []string{ObjectStores, "$KV." + LeaseBucket + ".>", "$KV." + RealmBucket + ".>", "$KV." + WriterBucket + ".>", "$KV." + ControllerBucket + ".>", "$JS.API.>", "$JS.ACK.>", "$JS.FC.>"},
	}
	for _, realm := range realms {
		r.Publish = append(r.Publish, LogSubject(realm), WorkSubject(realm, ">"), under(realm, "finalize.>"), under(realm, "terminate.>"), ExpireCalls(realm), WarningFilter(realm, ""))
		r.Subscribe = append(r.Subscribe, wholeTokens(CallAcks(realm)))
	}
	return r.withInbox()
}

// AnswersRole returns the role of the graph service's second connection, which serves
// requests. Clients choose the subjects of replies, so this role may publish to inboxes
// only: those of its own account and those of other accounts that the server maps.
func AnswersRole(realms ...string) Role {
	r := Role{
		Name:      RoleAnswers,
		Core:      true,
		About:     "graph service: answers requests, and can do nothing else",
		Publish:   []string{anyInbox, "_R_.>"},
		Subscribe: []string{services, under(SystemRealm, "api.>"), under(SystemRealm, "internal.>"), APIPattern(AnyRealm, VerbCreateRealm), APIPattern(AnyRealm, VerbDeleteRealm)},
	}
	for _, realm := range realms {
		r.Subscribe = append(r.Subscribe, under(realm, "api.>"), under(realm, "internal.>"))
	}
	return r.withInbox()
}

// ProcessorRole returns the role of processors, which evaluate dirty objects and send
// proposals.
func ProcessorRole(realms ...string) Role {
	r := Role{Name: RoleProcessor, About: "garbage processors: evaluate dirty objects and propose", Publish: []string{InternalSubject(SystemRealm, OpRealms)}}
	for _, realm := range realms {
		r.Publish = append(r.Publish, InternalSubject(realm, OpResolve), InternalSubject(realm, OpPropose),
			under(realm, "parked.work."+QueueDirty+".*"))
		r.Publish = append(r.Publish, consume(WorkStream(realm), DurableProcessors)...)
	}
	return r.withInbox()
}

// FinalizersRole returns the role of the service that does the work of the built-in
// finalizers.
func FinalizersRole(realms ...string) Role {
	r := Role{Name: RoleFinalizers, About: "built-in finalizers: orphan, foregroundDeletion, coppice.dev/contents, coppice.dev/in-use", Publish: []string{InternalSubject(SystemRealm, OpRealms)}}
	for _, realm := range realms {
		r.Publish = append(r.Publish, InternalSubject(realm, OpOrphan), InternalSubject(realm, OpFinish), InternalSubject(realm, OpDrain))
		for _, queue := range []string{QueueOrphan, QueueFinish, QueueDrain} {
			r.Publish = append(r.Publish, under(realm, "parked.work."+queue+".*"))
		}
		for _, durable := range []string{DurableOrphan, DurableFinish, DurableDrain} {
			r.Publish = append(r.Publish, consume(WorkStream(realm), durable)...)
		}
	}
	return r.withInbox()
}

// ScannerRole returns the role of the scanner, which walks all objects, enqueues dirty
// ones, asks to republish pending work, and has objects deleted that have expired.
func ScannerRole(realms ...string) Role {
	r := Role{Name: RoleScanner, About: "scanner: walks all objects, enqueues what is dirty, republishes pending work, deletes what has expired", Publish: []string{InternalSubject(SystemRealm, OpRealms)}}
	for _, realm := range realms {
		r.Publish = append(r.Publish, InternalSubject(realm, OpWalk), InternalSubject(realm, OpRepublish), InternalSubject(realm, OpCycles),
			InternalSubject(realm, OpDue), InternalSubject(realm, OpExpire), InternalSubject(realm, OpExamine),
			WorkSubject(realm, QueueDirty), api(realm, RoleScanner, VerbList),
			StreamInfoSubject(WorkStream(realm)))
	}
	return r.withInbox()
}

// FinalizerRole returns the role of the controller of one external finalizer. It receives
// the calls of that finalizer, and may remove that finalizer and no other.
func FinalizerRole(user, finalizer string, realms ...string) Role {
	durable := FinalizerDurable(finalizer)
	r := Role{Name: user, About: "external finalizer " + finalizer}
	for _, realm := range realms {
		stream := FinalizeStream(realm)
		r.Publish = append(r.Publish,
			api(realm, user, VerbGet), api(realm, user, VerbResolve), api(realm, user, VerbRemoveFinalizer)+"."+finalizer,
			API{Realm: realm, Actor: user, Verb: VerbConsumeFinalizer, Finalizer: finalizer}.Subject(),
			under(realm, "parked.finalize.*.*.*."+finalizer))
		r.Publish = append(r.Publish, consume(stream, durable)...)
	}
	return r.withInbox()
}

// AgentRole returns the role of the agent of one kind. It receives the calls for that kind,
// and may delete objects of it.
func AgentRole(user, group, plural string, realms ...string) Role {
	durable := AgentDurable(group, plural)
	r := Role{Name: user, About: "agent: ends " + plural + " within their grace period"}
	for _, realm := range realms {
		stream := FinalizeStream(realm)
		filter := TerminateFilter(realm, group, plural)
		for _, verb := range []string{VerbGet, VerbResolve, VerbPlan, VerbDelete} {
			r.Publish = append(r.Publish, API{Realm: realm, Actor: user, Verb: verb, Group: group, Plural: plural, Namespace: "*"}.Subject())
		}
		r.Publish = append(r.Publish, API{Realm: realm, Actor: user, Verb: VerbConsumeAgent, Group: group, Plural: plural}.Subject(),
			under(realm, "parked."+strings.TrimPrefix(filter, under(realm, ""))))
		r.Publish = append(r.Publish, consume(stream, durable)...)
	}
	return r.withInbox()
}

// ExpiryRole returns the role of a program that answers the notices of expiry policies which name
// it. It receives their calls, and may answer the notices of any object: more policies that name it
// need no other permission.
func ExpiryRole(user, name string, realms ...string) Role {
	r := Role{Name: user, About: "answers the notices of expiry policies that call " + name}
	for _, realm := range realms {
		r.Publish = append(r.Publish, api(realm, user, VerbGet), api(realm, user, VerbVeto),
			API{Realm: realm, Actor: user, Verb: VerbConsumeExpiry, Finalizer: name}.Subject())
		r.Publish = append(r.Publish, consume(FinalizeStream(realm), ExpiryDurable(name))...)
	}
	return r.withInbox()
}

// ApplicationRole returns the role of a controller or a tool that works with objects. It
// may register kinds, but not delete them or change the realm settings, the protection of
// objects, protection policies or expiry policies, or write uses of objects in other namespaces.
func ApplicationRole(user string, realms ...string) Role {
	r := Role{Name: user, About: "application: reads and writes objects"}
	for _, realm := range realms {
		r.Publish = append(r.Publish, apiVerbs(realm, user, append(PastVerbs(), VerbImport, VerbRestore, VerbRemoveFinalizer, VerbConsumeFinalizer, VerbConsumeAgent, VerbConsumeExpiry, VerbForceFinalizer, VerbProtect, VerbUnprotect, VerbDeleteUnreadable, VerbVeto, VerbApplyAcross,
			VerbReadWarnings, VerbListParked, VerbRetryParked, VerbDropParked, VerbVerify, VerbArchive, VerbResume, VerbReleaseBrake, VerbLease,
			VerbCreateRealm, VerbDeleteRealm, VerbListRealms)...)...)
		of := func(verb, plural string) string {
			return API{Realm: realm, Actor: user, Verb: verb, Group: "coppice.dev", Plural: plural, Namespace: "*"}.Subject()
		}
		for _, verb := range []string{VerbDelete, VerbDeleteCollection} {
			r.Deny = append(r.Deny, of(verb, "kinds"))
		}
		for _, verb := range []string{VerbCreate, VerbUpdate, VerbUpdateStatus, VerbPatch, VerbApply, VerbDelete, VerbDeleteCollection} {
			r.Deny = append(r.Deny, of(verb, "realms"), of(verb, "protectionpolicies"), of(verb, "expirypolicies"))
		}
	}
	return r.withInbox()
}

// ControllerRole returns the role of a controller that works with objects, elects a leader of its
// processes and runs external finalizers, if it has any, on one connection: it is an ApplicationRole
// with the verb lease, and a FinalizerRole of each.
func ControllerRole(user string, finalizers []string, realms ...string) Role {
	r := ApplicationRole(user, realms...)
	r.About = "controller: reads and writes objects, and elects a leader"
	if len(finalizers) > 0 {
		r.About = "controller: reads and writes objects, elects a leader, and runs the external finalizers " + strings.Join(finalizers, ", ")
	}
	for _, realm := range realms {
		r.Publish = append(r.Publish, api(realm, user, VerbLease))
	}
	for _, f := range finalizers {
		r.Publish = append(r.Publish, FinalizerRole(user, f, realms...).Publish...)
	}
	r.spell()
	return r
}

// ReaderRole returns a role that may read everything, the past included, and change nothing.
func ReaderRole(user string, realms ...string) Role {
	return readingRole(user, "reader: objects, the past and the log, work that waits; changes nothing", PastVerbs(), realms)
}

// ViewerRole returns the role of a reader who may not read the past: what was deleted before is
// not shown.
func ViewerRole(user string, realms ...string) Role {
	return readingRole(user, "viewer: the present objects, work that waits; not the past; changes nothing", nil, realms)
}

func readingRole(user, about string, more, realms []string) Role {
	r := Role{Name: user, About: about, Publish: []string{api(SystemRealm, user, VerbListRealms)}}
	for _, realm := range realms {
		for _, verb := range append([]string{
			VerbGet, VerbList, VerbWatch, VerbWatchGraph, VerbResolve, VerbPlan, VerbStatus, VerbReadWarnings, VerbListConsumers, VerbListFinalizers, VerbListParked, VerbBrakes,
		}, more...) {
			r.Publish = append(r.Publish, api(realm, user, verb))
		}
	}
	return r.withInbox()
}

// OperatorRole returns the role of a person who operates realms. It has every verb,
// including import and the removal of finalizers by hand, and access to parked work.
func OperatorRole(user string, realms ...string) Role {
	r := Role{Name: user, About: "operator: every verb, import and removal of finalizers by hand among them; what is parked"}
	for _, realm := range realms {
		r.Publish = append(r.Publish, apiVerbs(realm, user)...)
	}
	return r.withInbox()
}

// BenchRole is that of `coppice bench cascade --server` and of the other benchmarks: an
// application that imports, answers its own finalizer, and sees how much the log has
// grown.
func BenchRole(realms ...string) Role {
	r := ControllerRole(RoleBench, []string{BenchFinalizer}, realms...)
	r.About = "coppice bench --server: imports, makes, reads and deletes objects"
	for _, realm := range realms {
		for _, verb := range append(PastVerbs(), VerbImport) {
			r.Publish = append(r.Publish, api(realm, RoleBench, verb))
		}
		for _, plural := range []string{"realms", "protectionpolicies", "expirypolicies"} {
			r.Deny = append(r.Deny, API{Realm: realm, Actor: RoleBench, Verb: VerbImport, Group: "coppice.dev", Plural: plural, Namespace: "*"}.Subject())
		}
		for _, s := range []string{LogStream(realm), WorkStream(realm), FinalizeStream(realm)} {
			r.Publish = append(r.Publish, StreamInfoSubject(s))
		}
	}
	r.spell()
	return r
}

// BenchFinalizer is the external finalizer that benchmarks run.
const BenchFinalizer = "bench.coppice.dev/answered"

// LocalUser is the user of clients that connect to `coppice up` without a user name. The
// server then listens on the loopback interface only.
const LocalUser = "local"

// LocalRole returns the role of LocalUser. It has the verbs of every actor, takes and
// acknowledges the calls of all external finalizers, agents and expiry policies, receives warnings, finds
// the services, and sees how large the streams are. It may use any inbox, so that every
// NATS client works without settings.
//
// It may not create consumers, read streams from JetStream, take or acknowledge work, or
// publish to the log, to work or to calls.
func LocalRole(realms ...string) Role {
	r := Role{
		Name:      LocalUser,
		About:     "clients that connect from this machine without a name",
		Publish:   []string{services},
		Subscribe: []string{anyInbox},
	}
	for _, realm := range realms {
		calls := FinalizeStream(realm)
		r.Publish = append(r.Publish, apiVerbs(realm, "*")...)
		r.Publish = append(r.Publish, under(realm, "parked.finalize.>"), under(realm, "parked.terminate.>"),
			PullSubject(calls, "*"), "$JS.ACK."+calls+ackOfAny)
		for _, s := range []string{LogStream(realm), WorkStream(realm), calls, ParkedStream(realm), WarningStream(realm)} {
			r.Publish = append(r.Publish, StreamInfoSubject(s))
		}
		r.Subscribe = append(r.Subscribe, WarningFilter(realm, ""))
	}
	// With AnyRealm, the patterns of PullSubject and of acknowledgements above match every stream, so
	// that of work, too. Deny these.
	for _, durable := range []string{DurableProcessors, DurableOrphan, DurableFinish, DurableDrain} {
		r.Deny = append(r.Deny, consume("*", durable)...)
	}
	r.spell()
	return r
}

// services is the pattern of the subjects on which services describe themselves.
const services = "$SRV.>"

// anyInbox is the pattern of all inboxes of an account.
const anyInbox = "_INBOX.>"

// ackOfAny are the tokens behind the name of a stream in the subject of the acknowledgement
// of a message from any consumer: its name, and five numbers.
const ackOfAny = ".*.*.*.*.*.*"

// AdminRole returns the role of a person who maintains the NATS server's streams: backup,
// restore, edit. It may do anything in the core account, including changes of the log.
func AdminRole() Role {
	return Role{
		Name: RoleAdmin, About: "admin: everything in the core account, as nats stream backup and nats stream edit need; it could rewrite the log",
		Publish: []string{">"}, Subscribe: []string{">"}, Core: true,
	}
}

func (r Role) withInbox() Role {
	r.spell()
	r.Subscribe = append(r.Subscribe, InboxPrefix(r.Name)+".>")
	return r
}

// spell sorts the patterns to which the role may publish, with wildcards for whole tokens.
func (r *Role) spell() {
	for i, s := range r.Publish {
		r.Publish[i] = wholeTokens(s)
	}
	r.Publish = slices.Compact(slices.Sorted(slices.Values(r.Publish)))
}

// wholeTokens replaces tokens of a pattern that contain AnyRealm inside a stream's name by
// a wildcard, because wildcards stand for whole tokens.
func wholeTokens(pattern string) string {
	if !strings.Contains(pattern, root+"-"+AnyRealm+"-") {
		return pattern
	}
	return inEveryRealm(pattern)
}

func under(realm, rest string) string { return root + "." + realm + "." + rest }

func api(realm, actor, verb string) string {
	return API{Realm: realm, Actor: actor, Verb: verb, Group: "*", Plural: "*", Namespace: "*"}.Subject()
}

func apiVerbs(realm, actor string, except ...string) []string {
	var list []string
	for _, v := range Verbs() {
		if slices.Contains(except, v) {
			continue
		}
		p := api(realm, actor, v)
		if v == VerbListRealms {
			p = api(SystemRealm, actor, v)
		}
		if NamesFinalizer(v) {
			p += ".>"
		}
		list = append(list, p)
	}
	return list
}

// consume returns the subjects to which a client publishes to take messages from a durable
// consumer and to acknowledge them.
func consume(stream, durable string) []string {
	return []string{
		PullSubject(stream, durable), AckSubjects(stream, durable),
	}
}
