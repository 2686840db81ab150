// Package client is the Go SDK of Coppice. It reads and writes objects, watches
// them, plans deletions, runs external finalizers and agents, and reads the event
// log, over a NATS connection.
//
//	nc, err := nats.Connect(nats.DefaultURL)
//	if err != nil {
//		return err
//	}
//	c := client.New(nc, client.WithRealm("default"), client.WithActor("shop-controller"))
//	pods := c.Resource(client.Resource{Plural: "pods"}, "shop")
//	pod, err := pods.Get(ctx, "web-1")
//
// An external finalizer is one call. [Client.RunFinalizer] removes the finalizer from an object
// when the function returns nil, and calls the function again after an error:
//
//	err := c.RunFinalizer(ctx, "example.com/bucket", func(ctx context.Context, call *client.Call) error {
//		return deleteBucket(ctx, call.Object)
//	})
//
// # Options
//
// Every call that sends a request takes options as its last arguments. An option is a named
// type with a value:
//
//	page, err := pods.ListPage(ctx, client.LabelSelector("app=web"), client.Limit(100))
//	result, err := pods.Delete(ctx, "web-1", client.Foreground, client.IfUID(uid))
//
// Functions that only make something in memory, such as [New] and [NewOwnerReference], take
// options whose names begin with With.
//
// # Errors
//
// A refused request returns an *[Error], which matches its reason:
//
//	if errors.Is(err, client.ErrNotFound) {
//		return nil // nothing to do
//	}
//
// The reasons have the same names in Go (after Err), on the wire and in
// docs/errors.md. If the context expires, the error also matches
// [context.DeadlineExceeded].
//
// # Retries and command ids
//
// The client sends a request again until it gets a reply or the context ends. A
// request that writes objects has a command id, and a service that gets the same id
// again returns the first result: the write is carried out at most once. The requests
// of [ResourceClient.DeleteCollection] and [ResourceClient.DeleteEverything] have no command ids.
//
// # Batching
//
// If more than four calls of [ResourceClient.Create] for the same resource and namespace are
// concurrent, their objects share requests. A shared request is one command in the
// log; each caller gets its own result. Up to four concurrent calls do not wait; a
// further call waits at most 100 ms before it is sent. [WithoutBatching] turns batching off.
//
// # Limits
//
// The client caches no objects; a program that needs a cache can keep it with [ResourceClient.Watch], which
// remembers the uid and the revision of each object that it has delivered. The client
// does not check permissions: the NATS server does.
//
// # Compatibility
//
// docs/versioning.md says which changes of this package are possible.
package client
