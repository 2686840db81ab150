package families_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/poll"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/stack"
	"github.com/coppice-gc/coppice/services/allinone"
)

var teardowns = flag.Int("teardowns", 20, "how many graphs TestTeardown draws")

// TestTeardown deletes drawn graphs of objects whose resources a cloud refuses to delete
// while others use them.
//
// B3.6: Resources are deleted in an order in which the cloud refuses no deletion.
func TestTeardown(t *testing.T) {
	t.Parallel()
	cloud := lifecycletest.NewCloud()
	r := startCloud(t, cloud)
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(atOnce)
	for i := range *teardowns {
		g.Go(func() error {
			at := *seed + uint64(i)
			graph := lifecycletest.DrawTeardown(rand.New(rand.NewPCG(at, 3)).IntN)
			if err := tearDown(ctx, r, cloud, fmt.Sprintf("teardown-%d", at), graph); err != nil {
				return fmt.Errorf("graph %d, %+v: %w", at, graph, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if refused := cloud.Refused(); len(refused) > 0 || cloud.Left() > 0 {
		t.Errorf("the cloud has %d resources, and refused %v", cloud.Left(), refused)
	}
}

// tearDown creates a graph in a namespace and deletes it.
func tearDown(ctx context.Context, r *client.Client, cloud *lifecycletest.Cloud, namespace string, graph lifecycletest.Teardown) error {
	cloud.Add(namespace+"/", graph)
	objects := func(i int) client.ResourceClient {
		return r.Resource(client.ParseResource(graph.Members[i].Resource), namespace)
	}
	uids := make([]string, len(graph.Members))
	for i := range graph.Members {
		created, err := objects(i).Create(ctx, graph.Object(i, uids))
		if err != nil {
			return err
		}
		uids[i] = created.GetMetadata().GetUid()
	}
	for _, d := range graph.Deletes {
		var options []client.DeleteOption
		if d.Policy != "" {
			options = append(options, client.PropagationPolicy(d.Policy))
		}
		if _, err := objects(d.Member).Delete(ctx, graph.Members[d.Member].Name, options...); err != nil && !errors.Is(err, client.ErrNotFound) {
			return err
		}
	}
	var left string
	waiting, cancel := context.WithTimeout(ctx, testkit.Timeout)
	defer cancel()
	err := poll.Until(waiting, func() (bool, error) {
		left = ""
		for i, m := range graph.Members {
			if _, err := objects(i).Get(waiting, m.Name); err == nil {
				left = m.Name
				return false, nil
			} else if !errors.Is(err, client.ErrNotFound) {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %s is left", err, left)
	}
	return nil
}

// startCloud starts a realm with a program that serves the finalizer of graphs from a cloud.
func startCloud(t *testing.T, cloud *lifecycletest.Cloud) *client.Client {
	t.Helper()
	s := stack.Start(t, allinone.Config{}, client.WithActor("cloud"))
	testkit.Run(t, func(ctx context.Context) error {
		return s.RunFinalizer(ctx, lifecycletest.ServedFinalizer, func(_ context.Context, call *client.Call) error {
			m := call.Object.GetMetadata()
			return cloud.Delete(m.GetNamespace() + "/" + m.GetName())
		})
	})
	return s.Client
}
