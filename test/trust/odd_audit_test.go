package trust_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

const (
	// markers is the namespace of the objects that no role changes: the requests of roles
	// that may write there name it only in reads.
	markers = "prod"
	// guard is a finalizer that only the operator may remove.
	guard = "example.com/guard"
)

// mark creates the markers: owners and dependents, one that waits for a finalizer,
// and one that waits for its dependent.
func (r *realm) mark() []*coppicev1.Object {
	r.TB.Helper()
	create := func(name string, finalizers []string, owners ...*coppicev1.OwnerReference) *coppicev1.Object {
		r.TB.Helper()
		o := &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name, Finalizers: finalizers, OwnerReferences: owners}}
		created := r.Create(secrets, markers, o)
		return created
	}
	owner := create("owner", nil)
	create("dependent", nil, client.NewOwnerReference(owner, client.WithBlockOwnerDeletion(true)))
	create("guarded", []string{guard})
	waiting := create("waiting", nil)
	create("waited-for", []string{guard}, client.NewOwnerReference(waiting, client.WithBlockOwnerDeletion(true)))
	for name, policy := range map[string]client.PropagationPolicy{"guarded": client.Background, "waiting": client.Foreground} {
		r.Delete(secrets, markers, name, policy)
	}
	r.WaitFor("the dependent to be deleted", func() bool {
		o, err := r.Resource(secrets, markers).Get(r.Ctx, "waited-for")
		return err == nil && o.GetMetadata().GetDeletionTimestamp() != nil
	})
	return r.objects(secrets, markers)
}

// victims creates objects that odd requests may change: without them, few requests have an effect.
// Some have finalizers of controllers, one that only an operator removes among them.
func (r *realm) victims() {
	r.TB.Helper()
	for _, of := range []client.Resource{secrets, {Plural: "configmaps"}, {Plural: "pods"}} {
		for _, name := range texts["name"] {
			o := &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name}}
			if name < "d" {
				o.Metadata.Labels = map[string]string{"app": "web"}
				o.Metadata.Finalizers = []string{bus.ExampleFinalizer, controllerFinalizer, guard}
			}
			r.Create(of, "odd", o)
		}
	}
}

// objects are those of a resource in a namespace.
func (r *realm) objects(of client.Resource, namespace string) []*coppicev1.Object {
	r.TB.Helper()
	var list []*coppicev1.Object
	for o, err := range r.Resource(of, namespace).List(r.Ctx) {
		must.Succeed(r.TB, err)
		list = append(list, o)
	}
	return list
}

// audit compares the changes of the realm with the changes that the roles may cause which
// have sent requests.
type audit struct {
	r       *realm
	js      jetstream.JetStream // as the administrator
	markers []*coppicev1.Object
	streams map[string]string
	next    uint64         // the first commit of the log that has not been looked at
	by      map[string]int // commands by actor, and by verb
}

func newAudit(r *realm) *audit {
	r.TB.Helper()
	js, err := jetstream.New(r.conn(bus.RoleAdmin))
	must.Succeed(r.TB, err)
	a := &audit{r: r, js: js, markers: r.mark(), by: map[string]int{}}
	last, err := r.Log().Last(r.Ctx)
	must.Succeed(r.TB, err)
	a.next = last + 1
	_, err = bus.EnsureBucket(r.Ctx, js, bus.ControllerBucket, 1)
	must.Succeed(r.TB, err)
	_, err = bus.PutKey(r.Ctx, js, bus.ControllerBucket, leased, []byte(`{"holder":"h","ttl":600000}`), 0)
	must.Succeed(r.TB, err)
	a.streams = a.configurations()
	return a
}

// leased is the key of a lease of an actor that sends no requests.
var leased = bus.LeaseKey(bus.DefaultRealm, "leads", "a")

// configurations are those of all streams and leases, and the consumers of services.
func (a *audit) configurations() map[string]string {
	a.r.TB.Helper()
	m := map[string]string{}
	list := a.js.ListStreams(a.r.Ctx)
	for info := range list.Info() {
		config, err := json.Marshal(info.Config)
		must.Succeed(a.r.TB, err)
		m[info.Config.Name] = string(config)
	}
	must.Succeed(a.r.TB, list.Err())
	stream, err := a.js.Stream(a.r.Ctx, bus.WorkStream(bus.DefaultRealm))
	must.Succeed(a.r.TB, err)
	consumers := stream.ListConsumers(a.r.Ctx)
	for info := range consumers.Info() {
		m["consumer "+info.Name] = fmt.Sprintf("filter %s, paused %t", info.Config.FilterSubject, info.Paused)
	}
	must.Succeed(a.r.TB, consumers.Err())
	m["lease"] = a.r.lease(a.js)
	of, err := bus.ReadKey(a.r.Ctx, a.js, bus.ControllerBucket, leased)
	must.Succeed(a.r.TB, err)
	m["lease of a controller"] = fmt.Sprintf("%s, revision %d", of.Value, of.Revision)
	return m
}

// lease is the process that holds the writer's lease.
func (r *realm) lease(js jetstream.JetStream) (value string) {
	r.TB.Helper()
	limit := 10 * time.Second
	r.WaitFor("the lease", func() bool {
		// A request that is lost in an election of a leader gets no reply.
		limit *= 2
		ctx, cancel := context.WithTimeout(r.Ctx, limit)
		defer cancel()
		kv, err := js.KeyValue(ctx, bus.WriterBucket)
		if err != nil {
			return false
		}
		entry, err := kv.Get(ctx, bus.DefaultRealm)
		if err == nil {
			value = string(entry.Value())
		}
		return err == nil
	})
	return value
}

// check reports changes since the last check that these roles may not cause.
func (a *audit) check(senders ...string) (violations []string) {
	a.r.TB.Helper()
	bad := func(format string, args ...any) {
		if len(violations) < 20 {
			violations = append(violations, fmt.Sprintf(format, args...))
		}
	}
	for c, err := range a.r.Log().Read(a.r.Ctx, client.FromSequence(a.next)) {
		must.Succeed(a.r.TB, err)
		a.next = c.Sequence + 1
		for _, command := range c.GetCommands() {
			a.by[command.GetActor()]++
			a.by[command.GetVerb()]++
			if !a.mayCommand(command, senders) {
				bad("commit %d has a command %s of actor %q", c.Sequence, command.GetVerb(), command.GetActor())
			}
		}
		for _, e := range client.Events(c.Commit, resourceOf) {
			if why := a.objection(e); why != "" {
				bad("commit %d: %s %s/%s in namespace %q by actor %q, verb %s: %s", c.Sequence, e.Type, e.Resource, e.Name, e.Namespace, e.Actor, e.Verb, why)
			}
		}
	}
	now := a.r.objects(secrets, markers)
	if !slices.EqualFunc(now, a.markers, func(x, y *coppicev1.Object) bool { return proto.Equal(x, y) }) {
		bad("the objects in namespace %s are %v, and were %v", markers, now, a.markers)
	}
	configurations := a.configurations()
	for name, was := range a.streams {
		if configurations[name] != was {
			bad("%s is %q, and was %q", name, configurations[name], was)
		}
	}
	for name := range configurations {
		if _, ok := a.streams[name]; !ok {
			bad("%s is new", name)
		}
	}
	return violations
}

// mayCommand reports whether a command in the log is allowed.
func (a *audit) mayCommand(c *coppicev1.Command, senders []string) bool {
	internal := map[string][]string{
		bus.RoleProcessor: {bus.OpPropose}, bus.RoleFinalizers: {bus.OpOrphan, bus.OpFinish, bus.OpDrain}, bus.RoleScanner: {bus.OpCycles},
	}
	actor, verb := c.GetActor(), c.GetVerb()
	if actor == bus.RoleGraph {
		return true
	}
	if actor == lifecycle.ActorExpiry || strings.HasPrefix(actor, lifecycle.ActorExpiry+":") { // the scanner runs
		return verb == bus.VerbDelete
	}
	if verbs, ok := internal[actor]; ok {
		return slices.Contains(verbs, verb)
	}
	if !slices.Contains(senders, actor) {
		return false
	}
	for _, role := range actors() {
		if role.Name == actor {
			return slices.ContainsFunc(role.Publish, func(p string) bool { return bus.RequestName(p) == verb })
		}
	}
	return false
}

// objection returns why an event in the log is not allowed, and "" if it is.
func (a *audit) objection(e client.LogEvent) string {
	if e.Namespace == markers && slices.ContainsFunc(a.markers, func(o *coppicev1.Object) bool { return o.GetMetadata().GetUid() == e.UID }) {
		return "no user may change it"
	}
	if e.Namespace == noticed.Namespace && e.Name == noticed.Name {
		return "its notice lasts, and no request deletes or changes it before"
	}
	switch e.Reason {
	case coppicev1.Reason_REASON_FORCED, coppicev1.Reason_REASON_PROTECTED, coppicev1.Reason_REASON_UNPROTECTED:
		if e.Actor != bus.RoleOperator {
			return "only an operator protects objects, removes their protection, or removes finalizers by force"
		}
	}
	removal := e.Type == "DeletionMarked" || e.Type == "ObjectDeleted"
	switch e.Actor {
	case bus.RoleReader, bus.RoleViewer:
		return "a reader changes nothing"
	case bus.RoleAgent:
		if !removal || e.Resource != "pods" {
			return "an agent of pods only deletes pods"
		}
	case bus.RoleFinalizer:
		if removal && strings.HasSuffix(e.Detail, bus.ExampleFinalizer) || e.Type == "FinalizerRemoved" && e.Detail == bus.ExampleFinalizer {
			return ""
		}
		return "an external finalizer removes its own finalizer"
	case expiry.Name:
		return "a program that answers notices changes no object"
	case bus.RoleApplication, controller.Name:
		if e.Verb == bus.VerbRemoveFinalizer && (removal && strings.HasSuffix(e.Detail, controllerFinalizer) || e.Type == "FinalizerRemoved" && e.Detail == controllerFinalizer) {
			return "" // of the controller: the application does not have the verb
		}
		if e.Verb == bus.VerbRemoveFinalizer {
			return "a controller removes its own finalizers by the verb, and an application none"
		}
		if removal && e.Resource == "kinds.coppice.dev" {
			return "an application deletes no kind"
		}
		if slices.Contains([]string{"realms.coppice.dev", "protectionpolicies.coppice.dev", "expirypolicies.coppice.dev"}, e.Resource) {
			return "an application changes neither the settings nor the policies of a realm"
		}
	case bus.RoleProcessor, bus.RoleFinalizers, bus.RoleScanner, lifecycle.ActorExpiry:
		if e.Type == "ObjectCreated" || e.Type == "ObjectUpdated" {
			return "a service creates and updates no objects"
		}
	}
	return ""
}

func resourceOf(apiVersion, kind string) string {
	group, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		group = ""
	}
	name := strings.ToLower(kind) + "s"
	if group == "" {
		return name
	}
	return name + "." + group
}
