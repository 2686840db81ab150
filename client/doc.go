// Package client is Coppice's SDK for Go: objects, watches, the event log and
// external finalizers, over a NATS connection.
//
//	nc, _ := nats.Connect(nats.DefaultURL)
//	c := client.New(nc, client.WithRealm("default"), client.WithActor("shop-controller"))
//	pods := c.Objects(client.Resource{Plural: "pods"}, "shop")
//	pod, err := pods.Get(ctx, "web-1")
//
// An external finalizer is one call:
//
//	err := c.RunFinalizer(ctx, "example.com/bucket", func(ctx context.Context, call *client.Call) error {
//		return deleteBucket(ctx, call.Object.GetMetadata().GetName())
//	})
//
// # What it promises
//
// A command carries an id, and is sent again until it is answered or its
// context ends; a command that was carried out before gets its first outcome,
// so that it is carried out at most once. Refusals are errors of type *Error,
// which match a Reason with errors.Is. All methods are safe for concurrent use.
//
// Where more than four callers of one Client are creating objects of the same resource
// and namespace, what they create meanwhile goes together in one request, and is one
// command in the log; each gets their own outcome. Nobody waits for others to come, and
// for those on their way 100 ms at the most. WithApart turns it off.
//
// # What it does not
//
// It keeps no cache, and it does not check permissions: the NATS server does.
package client
