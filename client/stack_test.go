package client_test

import (
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit/stack"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
)

var configMaps = client.Resource{Plural: "configmaps"}

// shop is a realm with all services, and with config maps in the namespace shop.
type shop struct {
	*stack.Stack
	objects client.ResourceClient
}

func start(t *testing.T) *shop {
	t.Helper()
	return startWith(t, allinone.Config{})
}

func startWith(t *testing.T, c allinone.Config) *shop {
	t.Helper()
	s := stack.Start(t, c)
	return &shop{s, s.Resource(configMaps, "shop")}
}

// create creates a config map with these finalizers.
func (s *shop) create(name string, finalizers ...string) *coppicev1.Object {
	s.TB.Helper()
	return s.Create(configMaps, "shop", stack.Finalized(name, finalizers...))
}

// delete deletes a config map.
func (s *shop) delete(name string) {
	s.TB.Helper()
	s.Delete(configMaps, "shop", name)
}

// gone waits until a config map is removed.
func (s *shop) gone(name string) {
	s.TB.Helper()
	s.Gone(configMaps, "shop", name)
}
