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
// Create, Update, UpdateStatus and Apply of many callers of one Client go together
// in a few requests where there are many at once, each with its own outcome: a
// message is most of what an object costs. They are one command in the log. Nobody
// waits for others to come; WithApart turns it off.
//
// # What it does not
//
// It keeps no cache, and it does not check permissions: the NATS server does.
package client
