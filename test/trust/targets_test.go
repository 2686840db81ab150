package trust_test

import (
	"github.com/coppice-gc/coppice/internal/bus"
)

// streams are those of a realm, of the leases, of the list of realms, and of an archive.
func streams() []string {
	return []string{
		bus.LogStream(bus.DefaultRealm), bus.WorkStream(bus.DefaultRealm), bus.FinalizeStream(bus.DefaultRealm),
		bus.ParkedStream(bus.DefaultRealm), bus.WarningStream(bus.DefaultRealm), "KV_" + bus.LeaseBucket,
		"KV_" + bus.WriterBucket, "KV_" + bus.ControllerBucket, "KV_" + bus.RealmBucket, "OBJ_" + archiveBucket,
	}
}

// expiry is a program that answers notices.
var expiry = bus.ExpiryRole("keeper", "example.com/keeper", bus.AnyRealm)

// controller is a program that works with objects and runs an external finalizer.
var controller = bus.ControllerRole("sites", []string{controllerFinalizer}, bus.AnyRealm)

const controllerFinalizer = "example.com/site"

// added are the roles that an installation adds to those of bus.Roles.
func added() []bus.Role { return []bus.Role{expiry, controller} }

// actors are the roles with accounts of their own.
func actors() []bus.Role { return append(bus.Actors(bus.Roles(bus.AnyRealm)), added()...) }

// notice is a call about a notice.
var notice = bus.Expire{Realm: bus.DefaultRealm, Plural: "secrets", UID: "u", Name: "example.com/keeper"}.Subject()

// operations are those of a realm that services request.
func operations() []string {
	return []string{bus.OpResolve, bus.OpPropose, bus.OpOrphan, bus.OpFinish, bus.OpDrain, bus.OpWalk, bus.OpRepublish, bus.OpCycles, bus.OpDue, bus.OpExpire, bus.OpExamine}
}

// archiveBucket is the object store that the matrix uses as an archive.
const archiveBucket = "archive"

// targets are subjects that no reply and no delivery may reach, some of each kind.
func targets() []string {
	log, work, finalize := bus.LogStream(bus.DefaultRealm), bus.WorkStream(bus.DefaultRealm), bus.FinalizeStream(bus.DefaultRealm)
	durable := bus.FinalizerDurable(bus.ExampleFinalizer)
	call := bus.Finalize{Realm: bus.DefaultRealm, Plural: "secrets", UID: "u", Finalizer: bus.ExampleFinalizer}.Subject()
	list := []string{
		bus.LogSubject(bus.DefaultRealm), "$KV." + bus.LeaseBucket + "." + bus.MemberKey("x"), "$KV." + bus.WriterBucket + "." + bus.DefaultRealm, call, notice,
		"$KV." + bus.RealmBucket + "." + bus.DefaultRealm, "$KV." + bus.ControllerBucket + "." + bus.LeaseKey(bus.DefaultRealm, "sites", "example.com/sites"),
		bus.Terminate{Realm: bus.DefaultRealm, Plural: "pods", UID: "u"}.Subject(),
		bus.Warning{Realm: bus.DefaultRealm, Plural: "pods", Namespace: "shop", UID: "u", Reason: "x"}.Subject(),
		bus.ParkedSubject(bus.DefaultRealm, bus.WorkSubject(bus.DefaultRealm, bus.QueueDirty), 1), bus.ParkedSubject(bus.DefaultRealm, call, 1),
		"$O." + archiveBucket + ".M.eA==", "$O." + archiveBucket + ".C.x",
		bus.LogSubject("other"), "coppice.other.api.operator.deletecollection._.secrets." + markers,
		"$JS.ACK." + work + ".processors.1.1.1.1.0", "$JS.ACK." + finalize + "." + durable + ".1.1.1.1.0", "$JS.ACK._.h." + finalize + "." + durable + ".1.1.1.1.0",
		"$JS.FC." + log + ".x.y", "$SRV.PING", "$SRV.INFO", "$SRV.STATS.coppice-writer", "$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT." + bus.CoreAccount + ".CONNZ",
		"$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST", "$JS.API.STREAM.CREATE.shadow", "$JS.API.META.LEADER.STEPDOWN", "$JS.API.META.RESCUE",
		"$JS.API.SERVER.REMOVE", "$JS.API.SERVER.EVACUATE", "$JS.API.ACCOUNT.PURGE." + bus.CoreAccount,
		"$JS.API.ACCOUNT.STREAM.MOVE." + bus.CoreAccount + "." + log, "$JS.API.ACCOUNT.STREAM.CANCEL_MOVE." + bus.CoreAccount + "." + log,
	}
	for _, stream := range streams() {
		for _, op := range []string{"INFO", "UPDATE", "DELETE", "PURGE", "SNAPSHOT", "RESTORE", "MSG.GET", "MSG.DELETE", "LEADER.STEPDOWN", "PEER.REMOVE", "PEER.EVACUATE", "CANCEL_MOVE"} {
			list = append(list, "$JS.API.STREAM."+op+"."+stream)
		}
		list = append(list, "$JS.API.DIRECT.GET."+stream, "$JS.API.CONSUMER.CREATE."+stream, "$JS.API.CONSUMER.CREATE."+stream+".x", "$JS.API.CONSUMER.DURABLE.CREATE."+stream+".x", "$JS.API.CONSUMER.NAMES."+stream, "$JS.API.CONSUMER.LIST."+stream)
	}
	for consumer, stream := range map[string]string{bus.DurableProcessors: work, durable: finalize} {
		for _, op := range []string{"INFO", "DELETE", "PAUSE", "UNPIN", "RESET", "MSG.NEXT", "LEADER.STEPDOWN", "PEER.REMOVE", "PEER.EVACUATE"} {
			list = append(list, "$JS.API.CONSUMER."+op+"."+stream+"."+consumer)
		}
	}
	for _, verb := range bus.Verbs() {
		a := bus.API{Realm: bus.DefaultRealm, Actor: bus.RoleOperator, Verb: verb, Plural: "secrets", Namespace: markers}
		if bus.NamesFinalizer(verb) {
			a.Finalizer = bus.ExampleFinalizer
		}
		list = append(list, a.Subject())
	}
	for _, op := range operations() {
		list = append(list, bus.InternalSubject(bus.DefaultRealm, op))
	}
	list = append(list, bus.InternalSubject(bus.SystemRealm, bus.OpRealms))
	for _, queue := range []string{bus.QueueDirty, bus.QueueOrphan, bus.QueueFinish, bus.QueueDrain} {
		list = append(list, bus.WorkSubject(bus.DefaultRealm, queue))
	}
	return list
}
