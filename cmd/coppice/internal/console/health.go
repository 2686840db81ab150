package console

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/internal/admin"
)

// health is that of the services of the installation. It is the same for all users, and is read by HTTP.
type health struct {
	services func() []*url.URL
	last     cached[[]service]
}

// service is the health of a service, with the revision that it has reached in each realm.
type service struct {
	view.Service
	revisions map[string]uint64
}

// The health is read again when it is older than healthAge, and a service has healthTime to reply.
const (
	healthAge  = 3 * time.Second
	healthTime = 2 * time.Second
)

func newHealth(services func() []*url.URL) *health {
	h := &health{services: services}
	h.last = cached[[]service]{age: healthAge, time: healthTime, read: func(ctx context.Context) ([]service, bool) { return h.all(ctx), true }}
	return h
}

// of returns the health of all services, with their revisions in a realm.
func (h *health) of(ctx context.Context, realm string) []view.Service {
	all, _ := h.last.get(ctx)
	list := []view.Service{}
	newest := uint64(0)
	for _, s := range all {
		s.Revision = s.revisions[realm]
		newest = max(newest, s.Revision)
		list = append(list, s.Service)
	}
	for i := range list {
		if list[i].Revision > 0 {
			list[i].Lag = newest - list[i].Revision
		}
	}
	return list
}

// all asks all services at once.
func (h *health) all(ctx context.Context) []service {
	if h.services == nil {
		return nil
	}
	urls := h.services()
	list := make([]service, len(urls))
	var done sync.WaitGroup
	for i, u := range urls {
		done.Go(func() { list[i] = ask(ctx, u) })
	}
	done.Wait()
	return list
}

func ask(ctx context.Context, u *url.URL) service {
	s := service{Service: view.Service{Address: u.Host}, revisions: map[string]uint64{}}
	is, err := admin.Check(ctx, u)
	if err != nil {
		s.Waiting = err.Error()
		return s
	}
	s.Name, s.Waiting, s.Ready = is.Service, is.Waiting, is.Waiting == ""
	families, err := admin.ReadMetrics(ctx, u)
	if err != nil {
		return s // it is not known how far it is
	}
	for _, m := range families["coppice_graph_revision"].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if labels["state"] == "applied" {
			s.revisions[labels["realm"]] = uint64(m.GetGauge().GetValue())
		}
	}
	return s
}
