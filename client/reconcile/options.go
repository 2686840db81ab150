package reconcile

import (
	"time"

	"github.com/coppice-gc/coppice/client"
)

// Option is an option of Run.
type Option func(*options)

type options struct {
	namespace, selector string
	owns                []client.Resource
	watches             []watched
	workers             int
	backoff             client.Backoff
	retriesPerSecond    float64
	retryBurst          int
	resync              time.Duration
	onError             func(Key, error)
	lease               string
	leader              []client.LeaderOption
}

// watched is a resource of the option Watches.
type watched struct {
	resource client.Resource
	keys     func(*client.Object) []Key
}

func defaults() options {
	return options{
		workers:          1,
		backoff:          client.Backoff{Min: 10 * time.Millisecond, Max: 5 * time.Minute},
		retriesPerSecond: 10, retryBurst: 100,
		onError: func(Key, error) {},
	}
}

// InNamespace restricts the controller to a namespace. By default it handles all namespaces.
func InNamespace(namespace string) Option { return func(o *options) { o.namespace = namespace } }

// WithSelector restricts the controller to objects that match a label selector.
func WithSelector(selector string) Option { return func(o *options) { o.selector = selector } }

// Owns also watches objects of another resource. A change of such an object reconciles its
// controller, if the controller is an object of the resource that Run handles. client.SetControllerReference makes an object
// the controller of another.
func Owns(dependents client.Resource) Option {
	return func(o *options) { o.owns = append(o.owns, dependents) }
}

// Watches also watches objects of another resource. A change of such an object reconciles the
// keys that the function keys returns for the object before and after the change. keys must
// not block, and its result must depend on the object alone.
func Watches(r client.Resource, keys func(*client.Object) []Key) Option {
	return func(o *options) { o.watches = append(o.watches, watched{r, keys}) }
}

// Workers sets the number of objects that are reconciled at the same time; 1 by default.
func Workers(n int) Option { return func(o *options) { o.workers = max(n, 1) } }

// WithBackoff sets the pause before an object whose reconciliation failed is reconciled
// again: least after the first failure, doubled after each further one up to most. The
// default is 10 ms to 5 minutes, or to least if that is more; zero means the default. A
// change of the object ends the pause.
func WithBackoff(least, most time.Duration) Option {
	return func(o *options) {
		if least > 0 {
			o.backoff.Min = least
		}
		if o.backoff.Max = max(o.backoff.Max, o.backoff.Min); most > 0 {
			o.backoff.Max = most
		}
	}
}

// WithRetryLimit limits the retries of all objects together to a number in each second,
// after a burst. The default is 10 per second after 100. Changes are not limited.
func WithRetryLimit(perSecond float64, burst int) Option {
	return func(o *options) { o.retriesPerSecond, o.retryBurst = perSecond, burst }
}

// WithResync reconciles all objects after each period, also if nothing has changed. It is
// for controllers of things that change without an event. The default is never.
func WithResync(period time.Duration) Option { return func(o *options) { o.resync = period } }

// OnError sets a function that is called with each error of Reconcile, and with those
// of interrupted watches, which have the zero Key. It must not block, and must be
// safe for concurrent use.
func OnError(f func(Key, error)) Option {
	return func(o *options) {
		if f != nil {
			o.onError = f
		}
	}
}

// WithLeader lets several processes run the controller, of which one at a time works: the one that has the lease. The others
// wait, and one of them takes over when it stops, crashes, or is separated from NATS. See client.RunLeader for the name of the lease, for
// what is guaranteed, and for the options; errors are also reported to OnError, with the zero Key. All processes of a
// controller must use the same actor and the same lease, and two controllers two leases.
//
// Run lists and watches only while it leads. When it loses its lease, the contexts of all calls of Reconcile end; Run waits until they
// have returned, and competes again for the lease. Reconcile is not called any more then.
func WithLeader(lease string, opts ...client.LeaderOption) Option {
	return func(o *options) { o.lease, o.leader = lease, opts }
}
