package plan

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

var (
	pods       = client.Kind{Plural: "pods", Kind: "Pod", Scope: api.ScopeNamespaced}
	configMaps = client.Kind{Plural: "configmaps", Kind: "ConfigMap", Scope: api.ScopeNamespaced}
	namespaces = client.Kind{Plural: "namespaces", Kind: "Namespace", Scope: api.ScopeCluster}
)

// requestOf returns a request for objects that are deleted in the background.
func requestOf(t *testing.T, objects ...Object) *Request {
	t.Helper()
	r := &Request{}
	for _, o := range objects {
		must.Succeed(t, r.Add(o, client.Background, nil))
	}
	return r
}

// Objects of one kind in one namespace with one policy are one part; an object that is named again
// is in it once, and is refused if it is to be deleted in another way.
func TestAdd(t *testing.T) {
	t.Parallel()
	r := requestOf(t, Object{pods, "shop", "a"}, Object{configMaps, "shop", "a"}, Object{pods, "lab", "a"}, Object{pods, "shop", "b"}, Object{pods, "shop", "a"}, Object{namespaces, "shop", "shop"})
	grace, same := time.Second, time.Second
	for _, g := range []*time.Duration{&grace, &same} {
		must.Succeed(t, r.Add(Object{pods, "shop", "c"}, client.Background, g))
	}
	want := []client.Deletion{
		{Resource: client.ResourceOf(pods), Namespace: "shop", Names: []string{"a", "b"}, Propagation: client.Background},
		{Resource: client.ResourceOf(configMaps), Namespace: "shop", Names: []string{"a"}, Propagation: client.Background},
		{Resource: client.ResourceOf(pods), Namespace: "lab", Names: []string{"a"}, Propagation: client.Background},
		{Resource: client.ResourceOf(namespaces), Names: []string{"shop"}, Propagation: client.Background},
		{Resource: client.ResourceOf(pods), Namespace: "shop", Names: []string{"c"}, Propagation: client.Background, GracePeriod: &grace},
	}
	if !reflect.DeepEqual(r.Parts, want) {
		t.Errorf("the parts are %+v, want %+v", r.Parts, want)
	}
	objects := []Object{{pods, "shop", "a"}, {pods, "shop", "b"}, {configMaps, "shop", "a"}, {pods, "lab", "a"}, {namespaces, "", "shop"}, {pods, "shop", "c"}}
	if got := r.Objects(); !reflect.DeepEqual(got, objects) {
		t.Errorf("the objects are %+v, want %+v", got, objects)
	}
	for _, err := range []error{r.Add(Object{pods, "shop", "a"}, client.Orphan, nil), r.Add(Object{pods, "shop", "a"}, client.Background, &grace)} {
		var twice *TwiceError
		if !errors.As(err, &twice) || err.Error() != "pods/a is named twice, to be deleted in different ways; name it once" {
			t.Errorf("another policy: %v", err)
		}
	}
	if got := r.Objects(); !reflect.DeepEqual(got, objects) {
		t.Errorf("a refused object is added: %+v", got)
	}
}

// A command line has one namespace and one policy; other requests need a plan file.
func TestCommand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		r    *Request
		want string
	}{
		{requestOf(t, Object{pods, "default", "a"}), "coppice delete pods/a --plan=x@1"},
		{requestOf(t, Object{pods, "shop", "it's"}, Object{namespaces, "", "n"}, Object{configMaps, "shop", "b"}), `coppice delete 'pods/it'\''s' namespaces/n configmaps/b -n shop --plan=x@1`},
		{requestOf(t, Object{pods, "shop", "a"}, Object{pods, "lab", "a"}), ""},
	} {
		if got := c.r.Command("x@1", "default"); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	r, grace := &Request{}, 90*time.Second
	must.Succeed(t, r.Add(Object{pods, "shop", "a"}, client.Foreground, &grace))
	if got, want := r.Command("x@1", "default"), "coppice delete pods/a -n shop --plan=x@1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for what, add := range map[string]func() error{
		"another policy":       func() error { return r.Add(Object{pods, "shop", "b"}, client.Orphan, &grace) },
		"another grace period": func() error { return r.Add(Object{pods, "shop", "b"}, client.Foreground, nil) },
	} {
		r = requestOf(t)
		must.Succeed(t, errors.Join(r.Add(Object{pods, "shop", "a"}, client.Foreground, &grace), add()))
		if got := r.Command("x@1", "default"); got != "" {
			t.Errorf("%s: got %q", what, got)
		}
	}
}

// A request refuses the object that is one too many, and a part that is; it has those before them.
func TestTooMany(t *testing.T) {
	t.Parallel()
	objects, parts := &Request{}, &Request{}
	for i := range bus.MaxObjects {
		must.Succeed(t, objects.Add(Object{pods, "shop", strconv.Itoa(i)}, client.Foreground, nil))
	}
	for i := range bus.MaxDeleteParts + 1 {
		must.Succeed(t, parts.Add(Object{pods, strconv.Itoa(i), "a"}, client.Foreground, nil))
	}
	for text, r := range map[string]*Request{bus.TooManyObjects: objects, "at most 101 kinds and namespaces": parts} {
		had := len(r.Objects())
		if err := r.Add(Object{pods, "lab", "b"}, client.Foreground, nil); !errors.Is(err, client.ErrRequestEntityTooLarge) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
		if err := r.Add(r.Objects()[0], client.Foreground, nil); err != nil || len(r.Objects()) != had {
			t.Errorf("an object that it has: %v, %d objects, want %d", err, len(r.Objects()), had)
		}
	}
}
