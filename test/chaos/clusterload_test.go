//go:build unix

package chaos_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// clusterLoad is the clients of a cluster, which send commands all the time.
type clusterLoad struct {
	stop    context.CancelFunc
	clients *errgroup.Group
	ledger  *ledger
	begun   atomic.Int64 // cascades
}

// startLoad starts clients that send single commands, and one that begins cascades.
func startLoad(c *cluster) *clusterLoad {
	stopping, stop := context.WithCancel(c.t.Context())
	g, ctx := errgroup.WithContext(stopping)
	l := &clusterLoad{stop: stop, clients: g, ledger: c.ledger}
	for i := range loaders {
		g.Go(func() error { return load(ctx, c.ledger, i) })
	}
	g.Go(func() error { return cascades(ctx, c.ledger, &l.begun) })
	return l
}

// progress is what the clients have got replies for.
type progress struct{ commands, cascades int64 }

func (l *clusterLoad) progress() progress {
	l.ledger.mu.Lock()
	defer l.ledger.mu.Unlock()
	return progress{int64(l.ledger.all), l.begun.Load()}
}

// since reports whether the clients have got enough replies to show that commands of all
// kinds succeed again.
func (l *clusterLoad) since(before progress) bool {
	now := l.progress()
	return now.commands >= before.commands+30 && now.cascades >= before.cascades+2
}

// end stops the clients, and returns the error of the first that has failed.
func (l *clusterLoad) end() error {
	l.stop()
	return l.clients.Wait()
}

// specBytes is the number of random bytes in the spec of a dependent: the log fills several
// files of its stream in a schedule.
const specBytes = 400

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

// dependents is the number of dependents of an owner of a cascade, in the second level, and
// cascadePause is the time between the beginnings of two cascades.
const (
	dependents   = 120
	cascadePause = 300 * time.Millisecond
)

// cascades creates an owner with dependents of two levels, some of them with an external
// finalizer, and deletes the owner, again and again. It never waits for the end of a cascade.
func cascades(ctx context.Context, l *ledger, begun *atomic.Int64) error {
	policies := []string{"Background", "Foreground", "Orphan"}
	tick := time.NewTicker(cascadePause)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := oneCascade(ctx, l, i, policies[i%len(policies)]); err != nil && ctx.Err() == nil {
			return fmt.Errorf("cascade %d: %w", i, err)
		}
		begun.Add(1)
	}
}

func oneCascade(ctx context.Context, l *ledger, i int, policy string) error {
	ns := fmt.Sprintf("cascades-%d", i%7)
	root := &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: fmt.Sprintf("root-%d", i)}}
	owners, err := made(l.do(ctx, creation(deployments, ns, root)))
	if err != nil {
		return err
	}
	root = owners[0]
	sets := make([]*coppicev1.Object, 4)
	for k := range sets {
		sets[k] = dependent(fmt.Sprintf("set-%d-%d", i, k), root)
	}
	if sets, err = made(l.do(ctx, creation(replicaSets, ns, sets...))); err != nil {
		return err
	}
	list := make([]*coppicev1.Object, dependents)
	for k := range list {
		list[k] = dependent(fmt.Sprintf("pod-%d-%d", i, k), sets[k%len(sets)])
		list[k].Spec = fmt.Appendf(nil, `"%x"`, random(specBytes))
		if k%10 == 0 {
			list[k].Metadata.Finalizers = []string{bus.ExampleFinalizer}
		}
	}
	if _, err = made(l.do(ctx, creation(pods, ns, list...))); err != nil {
		return err
	}
	_, err = l.do(ctx, deletion(deployments, ns, policy, root.GetMetadata().GetName()))
	return err
}

func dependent(name string, owner *coppicev1.Object) *coppicev1.Object {
	return &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{
		Name: name, OwnerReferences: []*coppicev1.OwnerReference{client.NewOwnerReference(owner, client.WithBlockOwnerDeletion(true))},
	}}
}

// made returns the objects of a reply.
func made(reply *coppicev1.ObjectsReply, err error) ([]*coppicev1.Object, error) {
	if err != nil {
		return nil, err
	}
	var list []*coppicev1.Object
	for _, r := range reply.GetResults() {
		if r.GetError() != nil {
			return nil, errors.New(r.GetError().GetMessage())
		}
		list = append(list, r.GetObject())
	}
	return list, nil
}
