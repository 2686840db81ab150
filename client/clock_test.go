package client_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	graphservice "github.com/coppice-gc/coppice/services/graph"
)

// Clients whose clocks are ten minutes slow, or fast, create, update and delete as
// others do, alone and with many callers at once.
func TestWrongClocks(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, wrong := range map[string]time.Duration{"slow": -10 * time.Minute, "fast": 10 * time.Minute} {
		c := client.New(s.Conn(), client.WithTimeout(testkit.Timeout))
		c.SetClock(wrong)
		s.crowd(c, "10 min "+name, name)
	}
}

// S12: after an hour without commits 64 callers begin at once, by clocks that are right,
// ten minutes slow and ten minutes fast. The command of each is carried out once.
func TestAfterAnHour(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]time.Duration{"right": 0, "slow": -10 * time.Minute, "fast": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ahead atomic.Int64 // of the graph service's clock
			s := startWith(t, allinone.Config{Graph: func(c *graphservice.Config) {
				c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
				c.MaxClockSkew = 2 * time.Hour
			}})
			s.create("before")
			before := s.revision()
			ahead.Store(int64(time.Hour))
			c := client.New(s.Conn(), client.WithTimeout(testkit.Timeout))
			c.SetClock(time.Hour + wrong)
			s.crowd(c, name, "o")
			if got, want := s.revision(), before+3*callers; got != want {
				t.Errorf("the realm is at revision %d, want %d: one for each command", got, want)
			}
			if o, err := c.Resource(configMaps, "shop").Get(s.Ctx, "before"); err != nil {
				t.Errorf("of before the hour there is %v, %v", o, err)
			}
		})
	}
}

// callers is how many callers crowd has.
const callers = 64

// crowd has many callers at once create, update and delete an object each.
func (s *shop) crowd(c *client.Client, clock, prefix string) {
	s.TB.Helper()
	objects := c.Resource(configMaps, "shop")
	begin := make(chan struct{})
	errs := make(chan error, callers)
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			<-begin
			errs <- func() error {
				made, err := objects.Create(s.Ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: fmt.Sprintf("%s-%d", prefix, i)}})
				if err != nil {
					return fmt.Errorf("create: %w", err)
				}
				made.Metadata.Labels = map[string]string{"a": "b"}
				if _, err := objects.Update(s.Ctx, made); err != nil {
					return fmt.Errorf("update: %w", err)
				}
				if _, err := objects.Delete(s.Ctx, made.GetMetadata().GetName()); err != nil {
					return fmt.Errorf("delete: %w", err)
				}
				return nil
			}()
		})
	}
	close(begin)
	group.Wait()
	for range callers {
		if err := <-errs; err != nil {
			s.TB.Errorf("a client whose clock is %s: %v", clock, err)
		}
	}
}

// revision is the realm's.
func (s *shop) revision() uint64 {
	s.TB.Helper()
	page, err := client.New(s.Conn(), client.WithTimeout(testkit.Timeout)).Resource(configMaps, "shop").ListPage(s.Ctx)
	must.Succeed(s.TB, err)
	return page.Revision
}
