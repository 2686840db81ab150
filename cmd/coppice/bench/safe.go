package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// realms is the resource of the settings of a realm.
var realms = client.Resource{Group: "coppice.dev", Plural: "realms"}

// brake gives the realm of a deployment a brake that no benchmark reaches.
func brake(ctx context.Context, d *Deployment) error {
	if !d.local() || d.c.Processes {
		return errors.New("a benchmark with a brake changes the settings of its own realm, which the role of benchmarks may not: leave out --server and --processes")
	}
	settings := &coppicev1.Object{
		Metadata: &coppicev1.ObjectMeta{Name: lifecycle.SettingsName},
		Spec:     fmt.Appendf(nil, `{"brake":{"objects":%d,"window":"1h"}}`, 1_000_000_000),
	}
	_, err := d.Client.Resource(realms, "").Create(ctx, settings)
	if errors.Is(err, client.ErrAlreadyExists) { // from an earlier run
		return nil
	}
	return err
}

// protect protects the survivors.
func (c *cascade) protect(ctx context.Context) error {
	objects := c.d.Client.Resource(Pods, c.namespace)
	var names []string
	for o, err := range objects.List(ctx, client.LabelSelector(candidate+"="+Kept)) {
		if err != nil {
			return err
		}
		names = append(names, o.GetMetadata().GetName())
	}
	if len(names) != c.f.survivors() {
		return fmt.Errorf("%d objects are to be protected, want %d", len(names), c.f.survivors())
	}
	return c.d.InBatches(ctx, "protecting objects", len(names), func(ctx context.Context, from, to int) error {
		return FirstError(objects.Protect(ctx, names[from:to], "one of the survivors of a benchmark"))
	})
}
