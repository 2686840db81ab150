package client_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Clients whose clocks are ten minutes slow, or fast, create, update and delete as
// others do, alone and with many callers at once.
func TestWrongClocks(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, wrong := range map[string]time.Duration{"slow": -10 * time.Minute, "fast": 10 * time.Minute} {
		c := client.New(s.nc)
		c.SetClock(wrong)
		objects := c.Objects(configMaps, "shop")
		const callers = 64
		errs := make(chan error, callers)
		for i := range callers {
			go func() {
				errs <- func() error {
					made, err := objects.Create(s.ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, i)}}, client.WriteOptions{})
					if err != nil {
						return fmt.Errorf("create: %w", err)
					}
					made.Object.Metadata.Labels = map[string]string{"a": "b"}
					if _, err := objects.Update(s.ctx, made.Object, client.WriteOptions{}); err != nil {
						return fmt.Errorf("update: %w", err)
					}
					if _, err := objects.Delete(s.ctx, made.Object.GetMetadata().GetName(), nil); err != nil {
						return fmt.Errorf("delete: %w", err)
					}
					return nil
				}()
			}()
		}
		for range callers {
			if err := <-errs; err != nil {
				t.Errorf("a client whose clock is 10 min %s: %v", name, err)
			}
		}
	}
}
