package client_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// refused checks that an error has a reason, and says these things.
func refused(t *testing.T, what string, err error, reason client.Reason, says ...string) {
	t.Helper()
	if !errors.Is(err, reason) {
		t.Errorf("%s: got %v, want %s", what, err, reason)
		return
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%s: %q does not say %q", what, err, s)
		}
	}
}

// Names that would make the subject that of another request are refused before anything is sent: _
// stands for all namespaces, and for the dots of a group.
func TestOtherSubjects(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.create("a")
	c := s.Client
	for _, to := range []struct {
		resource  client.Resource
		namespace string
		says      string
	}{
		{configMaps, "_", `"_" is not the name of a namespace`},
		{configMaps, "a.b", `"a.b" is not the name of a namespace`},
		{configMaps, "*", `"*" is not the name of a namespace`},
		{configMaps, " ", `" " is not the name of a namespace`},
		{client.Resource{Plural: "_"}, "shop", `"_" is not the plural`},
		{client.Resource{Plural: "pods.shop"}, "shop", `"pods.shop" is not the plural`},
		{client.Resource{Group: "a_b", Plural: "pods"}, "shop", `"a_b" is not a group`},
		{client.Resource{Group: ">", Plural: "pods"}, "shop", `">" is not a group`},
	} {
		r, what := c.Resource(to.resource, to.namespace), to.resource.String()+" in "+to.namespace
		_, err := r.ListPage(s.Ctx)
		refused(t, "list of "+what, err, client.ErrBadRequest, to.says)
		_, err = r.DeleteEverything(s.Ctx)
		refused(t, "deletion of "+what, err, client.ErrBadRequest, to.says)
		_, err = r.RemoveFinalizer(s.Ctx, "a", "example.com/x")
		refused(t, "finalizer of "+what, err, client.ErrBadRequest, to.says)
		for _, err := range r.Watch(s.Ctx) {
			refused(t, "watch of "+what, err, client.ErrBadRequest, to.says)
		}
	}
	_, err := c.Resource(configMaps, "shop").RemoveFinalizer(s.Ctx, "a", "")
	refused(t, "no finalizer", err, client.ErrBadRequest, "is empty")
	if _, err := c.Resource(configMaps, "shop").Get(s.Ctx, "a"); err != nil {
		t.Error(err)
	}
}

// A request that is based on an old object, or on another object with the same name, is
// refused and changes nothing.
func TestConflicts(t *testing.T) {
	t.Parallel()
	s := start(t)
	objects := s.objects
	old := s.create("a")
	changed := proto.Clone(old).(*coppicev1.Object)
	changed.Metadata.Labels = map[string]string{"app": "web"}
	now, err := objects.Update(s.Ctx, changed)
	must.Succeed(t, err)
	const says = "resourceVersion precondition failed: have "
	_, err = objects.Update(s.Ctx, old)
	refused(t, "update", err, client.ErrConflict, says, `configmaps "a"`)
	rv, other := old.GetMetadata().GetResourceVersion(), "another-uid"
	_, err = objects.Delete(s.Ctx, "a", client.IfResourceVersion(rv))
	refused(t, "delete", err, client.ErrConflict, says)
	_, err = objects.Delete(s.Ctx, "a", client.IfUID(other))
	refused(t, "delete of another", err, client.ErrConflict, "another-uid", old.GetMetadata().GetUid())
	found, err := objects.Get(s.Ctx, "a", nil) // a nil option is ignored
	if err != nil || found.GetMetadata().GetResourceVersion() != now.GetMetadata().GetResourceVersion() {
		t.Errorf("there is %v, %v", found, err)
	}
}

// A request that the server denies, or that has no responder, fails with the reason.
func TestForbidden(t *testing.T) {
	t.Parallel()
	s := start(t)
	patient := client.WithTimeout(testkit.Timeout)
	for what, c := range map[string]*client.Client{
		"a reader that writes":             s.As(bus.RoleReader, patient, client.WithActor(bus.RoleReader)),
		"an application as another actor":  s.As(bus.RoleApplication, patient, client.WithActor("ana")),
		"a finalizer that creates objects": s.As(bus.RoleFinalizer, patient, client.WithActor(bus.RoleFinalizer)),
	} {
		_, err := c.Resource(configMaps, "shop").Create(s.Ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "a"}})
		refused(t, what, err, client.ErrForbidden, "may not create configmaps", c.Realm(), c.Actor())
	}
	ctx := deadline{s.Ctx, make(chan struct{})}
	expire := sync.OnceFunc(func() { close(ctx.passed) })
	_, err := client.New(s.Conn(), patient, client.WithOnError(func(error) { expire() }), client.WithRealm("nowhere")).Resource(configMaps, "shop").Get(ctx, "a")
	refused(t, "an unknown realm", err, client.ErrServiceUnavailable, `no graph service answers for realm "nowhere": there is no such realm`)
	for what, c := range map[string]*client.Client{
		"a malformed realm": client.New(s.Conn(), client.WithRealm("No.Where")),
		"a malformed actor": client.New(s.Conn(), client.WithActor("a.b")),
	} {
		_, err := c.Resource(configMaps, "shop").Get(s.Ctx, "a")
		refused(t, what, err, client.ErrBadRequest, "is not the name of")
	}
}

// If the context expires while the last attempt waits for a reply, the error has the last
// refusal.
func TestLastRefusal(t *testing.T) {
	t.Parallel()
	server := testkit.StartNATS(t, natsd.Config{Dir: t.TempDir()})
	ctx := deadline{testkit.Context(t), make(chan struct{})}
	requests := 0
	answersTo(t, testkit.Conn(t, server, bus.RoleAnswers), bus.VerbGet, func(m *nats.Msg) {
		if requests++; requests == 2 {
			close(ctx.passed)
		}
		if requests > 1 {
			return
		}
		refusal := &nats.Msg{Header: nats.Header{
			micro.ErrorCodeHeader: []string{"429"}, micro.ErrorHeader: []string{"too much"}, bus.HeaderReason: []string{string(client.ErrTooManyRequests)},
		}}
		if err := m.RespondMsg(refusal); err != nil {
			t.Error(err)
		}
	})
	c := client.New(testkit.Conn(t, server, bus.LocalUser), client.WithTimeout(testkit.Timeout))
	_, err := c.Resource(configMaps, "shop").Get(ctx, "a")
	refused(t, "a read", err, client.ErrTooManyRequests, "too much")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want an error that matches context.DeadlineExceeded", err)
	}
}

// A call that the context ends matches the reason of the last attempt and the error of
// the context: for requests, for streamed replies, and with a retry timeout.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	nc := testkit.Conn(t, testkit.StartNATS(t, natsd.Config{Dir: t.TempDir()}), bus.LocalUser) // without services
	unserved, limited := client.New(nc), client.New(nc, client.WithRetryTimeout(50*time.Millisecond))
	ctx := testkit.Context(t)
	brief, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	ended, end := context.WithCancel(ctx)
	end()
	for what, call := range map[string]func() error{
		"get": func() error { _, err := unserved.Resource(configMaps, "shop").Get(brief, "a"); return err },
		"create": func() error {
			_, err := unserved.Resource(configMaps, "shop").Create(brief, &client.Object{Metadata: &client.ObjectMeta{Name: "a"}})
			return err
		},
		"verify":                func() error { _, err := unserved.Operations().Verify(brief); return err },
		"get, retry timeout":    func() error { _, err := limited.Resource(configMaps, "shop").Get(ctx, "a"); return err },
		"verify, retry timeout": func() error { _, err := limited.Operations().Verify(ctx); return err },
	} {
		err := call()
		var e *client.Error
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &e) {
			t.Errorf("%s: %v, want an *Error that matches context.DeadlineExceeded", what, err)
		}
	}
	if _, err := unserved.Resource(configMaps, "shop").Get(ended, "a"); !errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("canceled: %v", err)
	}
}
