//go:build unix

package processes_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

const (
	graph       = bus.RoleGraph
	answers     = bus.RoleAnswers
	processor   = bus.RoleProcessor
	scanner     = bus.RoleScanner
	finalizers  = bus.RoleFinalizers
	finalizer   = bus.RoleFinalizer
	agent       = bus.RoleAgent
	application = bus.RoleApplication
	reader      = bus.RoleReader
	viewer      = bus.RoleViewer
	operator    = bus.RoleOperator // the administrator may do anything in the core account
)

// only lists the roles that may use a subject; all others are refused.
type only []string

var (
	nobody   = only{}
	everyone = only{graph, answers, processor, scanner, finalizers, finalizer, agent, application, reader, viewer, operator}
	// own and other are the durables of the external finalizer and of another.
	own   = bus.FinalizerDurable(bus.ExampleFinalizer)
	other = bus.FinalizerDurable("example.com/other")
)

// mayPublish lists which roles may publish to a subject. It is written by hand, and not
// derived from internal/bus, so that it can find mistakes there.
var mayPublish = map[string]only{
	// Only the graph service may use the log and leases.
	"coppice.default.log":               {graph},
	"$KV.coppice-leases.default.writer": {graph},

	// A role applies to every realm, also to one that is created later. The subject of a
	// verb has a namespace.
	"coppice.other.log":                             {graph},
	"coppice.other.api.application.get._.pods.shop": {application},
	"coppice.other.api.reader.get._.pods.shop":      {reader},
	"coppice.other.api.application.get._.pods":      nobody,

	// Work, and requests of workers.
	"coppice.default.work.dirty":         {graph, scanner},
	"coppice.default.work.orphan":        {graph},
	"coppice.default.work.finish":        {graph},
	"coppice.default.work.drain":         {graph},
	"coppice.default.internal.resolve":   {processor},
	"coppice.default.internal.propose":   {processor},
	"coppice.default.internal.orphan":    {finalizers},
	"coppice.default.internal.finish":    {finalizers},
	"coppice.default.internal.drain":     {finalizers},
	"coppice.default.internal.walk":      {scanner},
	"coppice.default.internal.republish": {scanner},
	"coppice.default.internal.cycles":    {scanner},
	"coppice.default.internal.due":       {scanner},
	"coppice.default.internal.expire":    {scanner},
	"coppice.default.internal.examine":   {scanner},

	// Agents have their own calls, too. Only the graph service publishes warnings.
	"coppice.default.terminate._.pods.u":                                  {graph},
	"coppice.default.api.agent.delete._.pods.shop":                        {agent},
	"coppice.default.api.agent.delete._.configmaps.shop":                  nobody,
	"coppice.default.api.agent.removefinalizer._.pods.shop.example.com/b": nobody,
	"coppice.default.parked.terminate._.pods.u":                           {agent},
	"coppice.default.parked.terminate._.configmaps.u":                     nobody,
	"$JS.API.CONSUMER.MSG.NEXT.coppice-default-finalize.a-pods":           {graph, agent},
	"coppice.default.warning._.pods.shop.u.Reason":                        {graph},
	"$JS.API.CONSUMER.CREATE.coppice-default-warning.x":                   {graph},
	"coppice.default.internal.verify":                                     nobody,
	"coppice.default.api.operator.verify._._._":                           {operator},
	"coppice.default.api.reader.verify._._._":                             nobody,

	// An external finalizer has only its own calls.
	"coppice.default.finalize._.pods.u.example.com/bucket":                                                                 {graph},
	"coppice.default.api.finalizer.removefinalizer._.pods.shop.example.com/bucket":                                         {finalizer},
	"coppice.default.api.finalizer.removefinalizer._.pods.shop.example.com/other":                                          nobody,
	"coppice.default.parked.finalize._.pods.u.example.com/bucket":                                                          {finalizer},
	"coppice.default.parked.finalize._.pods.u.example.com/other":                                                           nobody,
	"$JS.API.CONSUMER.MSG.NEXT.coppice-default-finalize." + own:                                                            {graph, finalizer},
	"$JS.API.CONSUMER.MSG.NEXT.coppice-default-finalize." + other:                                                          {graph},
	"$JS.API.CONSUMER.DELETE.coppice-default-finalize." + own:                                                              {graph},
	"$JS.ACK.coppice-default-finalize." + own + ".1.1.1.1.0":                                                               {graph, finalizer},
	"$JS.ACK.coppice-default-finalize." + other + ".1.1.1.1.0":                                                             {graph},
	"$JS.API.CONSUMER.CREATE.coppice-default-finalize." + own + "." + bus.FinalizeFilter("default", bus.ExampleFinalizer):  {graph},
	"$JS.API.CONSUMER.CREATE.coppice-default-finalize." + own + "." + bus.FinalizeFilter("default", "example.com/other"):   {graph},
	"$JS.API.CONSUMER.CREATE.coppice-default-finalize." + other + "." + bus.FinalizeFilter("default", "example.com/other"): {graph},

	// A role is bound to its actor and its verbs.
	"coppice.default.api.application.create._.pods.shop":                         {application},
	"coppice.default.api.application.delete._.pods.shop":                         {application},
	"coppice.default.api.application.import._.pods.shop":                         nobody,
	"coppice.default.api.application.removefinalizer._.pods.shop.example.com/b":  nobody,
	"coppice.default.api.operator.import._.pods.shop":                            {operator},
	"coppice.default.api.operator.removefinalizer._.pods.shop.example.com/other": {operator},
	"coppice.default.api.reader.get._.pods.shop":                                 {reader},
	"coppice.default.api.reader.create._.pods.shop":                              nobody,
	"coppice.default.api.reader.delete._.pods.shop":                              nobody,
	"coppice.default.api.viewer.get._.pods.shop":                                 {viewer},
	"coppice.default.api.viewer.watch._.pods.shop":                               {viewer},
	"coppice.default.api.viewer.readlog._._._":                                   nobody,
	"coppice.default.api.viewer.readpast._.pods.shop":                            nobody,
	"coppice.default.api.viewer.delete._.pods.shop":                              nobody,
	"coppice.default.api.reader.readlog._._._":                                   {reader},
	"coppice.default.api.reader.readpast._.pods.shop":                            {reader},
	"coppice.default.api.operator.readpast._.pods.shop":                          {operator},
	"coppice.default.api.application.readlog._._._":                              nobody,
	"coppice.default.api.application.readpast._.pods.shop":                       nobody,
	"coppice.default.api.finalizer.get._.pods.shop":                              {finalizer},
	"coppice.default.api.finalizer.delete._.pods.shop":                           nobody,
	"coppice.default.api.scanner.list.coppice_dev.kinds._":                       {scanner},
	"coppice.default.api.scanner.delete._.pods.shop":                             nobody,
	"coppice.default.api.processor.delete._.pods.shop":                           nobody,
	"coppice.default.api.graph.delete._.pods.shop":                               nobody,
	"coppice.default.api.ana.get._.pods.shop":                                    nobody,

	// Workers pull from their own queues, and park their own work.
	"$JS.API.CONSUMER.MSG.NEXT.coppice-default-work.processors": {graph, processor},
	"$JS.API.CONSUMER.MSG.NEXT.coppice-default-work.orphan":     {graph, finalizers},
	"$JS.API.CONSUMER.MSG.NEXT.coppice-default-work.finish":     {graph, finalizers},
	"$JS.API.CONSUMER.MSG.NEXT.coppice-default-work.drain":      {graph, finalizers},
	"$JS.ACK.coppice-default-work.processors.1.1.1.1.0":         {graph, processor},
	"$JS.ACK.coppice-default-work.orphan.1.1.1.1.0":             {graph, finalizers},
	"$JS.ACK.coppice-default-work.finish.1.1.1.1.0":             {graph, finalizers},
	"$JS.ACK.coppice-default-work.drain.1.1.1.1.0":              {graph, finalizers},
	"coppice.default.parked.work.dirty.1":                       {processor},
	"coppice.default.parked.work.orphan.1":                      {finalizers},
	"coppice.default.parked.work.finish.1":                      {finalizers},
	"coppice.default.parked.work.drain.1":                       {finalizers},

	// Only the graph service manages streams and consumers.
	"$JS.API.STREAM.NAMES":                                                      {graph},
	"$JS.API.DIRECT.GET.coppice-default-log":                                    {graph},
	"$JS.API.CONSUMER.INFO.coppice-default-work.x":                              {graph},
	"$JS.API.CONSUMER.NAMES.coppice-default-work":                               {graph},
	"$JS.API.CONSUMER.CREATE.coppice-default-log":                               {graph},
	"$JS.API.CONSUMER.DELETE.coppice-default-log.x":                             {graph},
	"$JS.API.CONSUMER.CREATE.coppice-default-log.x":                             {graph},
	"$JS.API.STREAM.MSG.GET.coppice-default-log":                                {graph},
	"$JS.API.CONSUMER.CREATE.coppice-default-work.x":                            {graph},
	"$JS.API.CONSUMER.CREATE.coppice-default-work.x.coppice.default.work.dirty": {graph},
	"$JS.API.CONSUMER.DURABLE.CREATE.coppice-default-work.processors":           {graph},
	"$JS.API.CONSUMER.DELETE.coppice-default-work.processors":                   {graph},
	"$JS.API.CONSUMER.PAUSE.coppice-default-work.processors":                    {graph},
	"$JS.API.CONSUMER.CREATE.coppice-default-parked.x":                          {graph},
	"$JS.API.STREAM.MSG.DELETE.coppice-default-parked":                          {graph},
	"$JS.API.STREAM.MSG.DELETE.coppice-default-log":                             {graph},
	"$JS.API.STREAM.MSG.DELETE.coppice-default-work":                            {graph},
	"$JS.API.STREAM.CREATE.shadow":                                              {graph},
	"$JS.API.STREAM.RESTORE.coppice-default-log":                                {graph},
	"$JS.API.STREAM.SNAPSHOT.coppice-default-log":                               {graph},

	// No role may reply in the name of another, or use the system API of the server.
	"_INBOX.processor.x":     {answers},
	"_INBOX.application.x":   {answers},
	"_R_.x.y":                {answers},
	"$SYS.REQ.SERVER.PING":   nobody,
	"$SRV.PING":              nobody,
	"$JS.FC.coppice-default": {graph},
}

// maySubscribe lists which roles may subscribe to a subject.
var maySubscribe = map[string]only{
	">":                                 nobody,
	"coppice.>":                         nobody,
	"coppice.default.>":                 nobody,
	"coppice.default.log":               nobody,
	"coppice.default.work.>":            nobody,
	"coppice.default.work.dirty":        nobody,
	"coppice.default.finalize.>":        nobody,
	"coppice.default.parked.>":          nobody,
	"coppice.default.api.>":             {answers},
	"coppice.default.internal.>":        {answers},
	"coppice.default.internal.propose":  {answers},
	"coppice.other.api.>":               {answers},
	"$JS.API.>":                         nobody,
	"$JS.ACK.>":                         nobody,
	"$KV.coppice-leases.default.writer": nobody,
	"$SRV.PING":                         {answers},
	"_INBOX.>":                          nobody,
}

// A server with the configuration in deploy/nats refuses each role exactly the subjects
// that it may not use.
func TestProcessesRoles(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	d.nats()
	publish, subscribe := maps.Clone(mayPublish), maps.Clone(maySubscribe)
	for _, stream := range []string{"log", "work", "finalize", "parked"} {
		for _, op := range []string{"DELETE", "PURGE", "UPDATE"} {
			publish[fmt.Sprintf("$JS.API.STREAM.%s.coppice-default-%s", op, stream)] = only{graph}
		}
	}
	for _, role := range everyone {
		subscribe["_INBOX."+role+".x"] = only{role}
	}
	for _, role := range everyone {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			refusedPublish, refusedSubscribe := d.in(t).try(role, slices.Collect(maps.Keys(publish)), slices.Collect(maps.Keys(subscribe)))
			compare(t, "publish to", role, publish, refusedPublish)
			compare(t, "subscribe to", role, subscribe, refusedSubscribe)
		})
	}
}

func compare(t *testing.T, what, role string, table map[string]only, refused map[string]bool) {
	t.Helper()
	for subject, roles := range table {
		if may := slices.Contains(roles, role); may == refused[subject] {
			t.Errorf("%s may %s %s: %t, want %t", role, what, subject, !refused[subject], may)
		}
	}
}

var violation = regexp.MustCompile(`Permissions Violation for (Publish|Subscription) to "([^"]+)"`)

// try publishes and subscribes with the user of a role, and returns the refused subjects.
func (d *deployment) try(role string, publish, subscribe []string) (publishing, subscribing map[string]bool) {
	d.t.Helper()
	// No role may publish this: when it is refused, all earlier refusals have arrived.
	const last = "the.last"
	told := make(chan struct{})
	publishing, subscribing = map[string]bool{}, map[string]bool{}
	nc := d.conn(role, func(_ *nats.Conn, _ *nats.Subscription, err error) {
		switch m := violation.FindStringSubmatch(err.Error()); {
		case m == nil:
			d.t.Errorf("%s: %v", role, err)
		case m[2] == last:
			close(told)
		case m[1] == "Publish":
			publishing[m[2]] = true
		default:
			subscribing[m[2]] = true
		}
	})
	for _, s := range subscribe {
		if _, err := nc.SubscribeSync(s); err != nil {
			d.t.Fatal(err)
		}
	}
	for _, s := range append(publish, last) {
		must.Succeed(d.t, nc.Publish(s, nil))
	}
	testkit.Receive(d.t, d.ctx, "the refusal of what nobody may", told)
	nc.Close()
	return publishing, subscribing
}
