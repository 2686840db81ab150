package chaos_test

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-gc/coppice/client"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// clients is the namespace of the clients that send commands all the time. loaders is their
// number.
const (
	clients = "clients"
	loaders = 3
)

// load is a client that creates, updates and deletes objects: about twenty commands a
// second, each sent after the reply to the last.
func load(ctx context.Context, l *ledger, number int) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		owner := &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: fmt.Sprintf("owner-%d-%06d", number, i)}}
		for _, next := range []func(made *coppicev1.Object) command{
			func(*coppicev1.Object) command { return creation(configMaps, clients, owner) },
			func(made *coppicev1.Object) command {
				return creation(configMaps, clients, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{
					Name: fmt.Sprintf("dependent-%d-%06d", number, i), OwnerReferences: []*coppicev1.OwnerReference{client.NewOwnerReference(made, client.WithBlockOwnerDeletion(true))},
				}})
			},
			func(*coppicev1.Object) command {
				owner.Spec = []byte(`{"n":1}`)
				return update(configMaps, clients, owner)
			},
			func(*coppicev1.Object) command {
				return deletion(configMaps, clients, []string{"Background", "Foreground", "Orphan"}[i%3], owner.GetMetadata().GetName())
			},
		} {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			reply, err := l.do(ctx, next(owner))
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil:
				return fmt.Errorf("a client's command: %w", err)
			}
			if o := reply.GetResults()[0].GetObject(); o.GetMetadata().GetName() == owner.GetMetadata().GetName() {
				owner = o
			}
		}
	}
}
