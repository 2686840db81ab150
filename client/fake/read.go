package fake

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"iter"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/memrealm"
	"github.com/coppice-gc/coppice/internal/selector"
)

// parseSelector parses a label selector.
func parseSelector(text string) (selector.Selector, error) {
	s, err := selector.Parse(text)
	if err != nil {
		return nil, lifecycle.ErrBadRequest("label_selector: %v", err)
	}
	return s, nil
}

// objects returns the objects of a kind that match, ordered by namespace and name. An
// empty namespace stands for all.
func objects(realm *memrealm.Realm, at lifecycle.Key, labels selector.Selector, uninitialized bool) []lifecycle.Object {
	var found []lifecycle.Object
	for _, u := range realm.UIDs() {
		n := realm.Node(u)
		if realm.Kinds().OfNode(n) != at.Kind || at.Namespace != "" && n.Namespace != at.Namespace || n.Uninitialized() && !uninitialized {
			continue
		}
		if o := (lifecycle.Object{Node: n, Body: realm.Body(n)}); labels.Matches(o.Body.GetLabels()) {
			found = append(found, o)
		}
	}
	slices.SortFunc(found, func(a, b lifecycle.Object) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return found
}

func (r *resourceClient) Get(ctx context.Context, name string, opts ...client.GetOption) (*client.Object, error) {
	o := collect(opts, client.GetOption.ApplyToGet)
	if err := checkNames(name); err != nil {
		return nil, err
	}
	var found *client.Object
	err := r.c.read(ctx, o.Reply, func(realm *memrealm.Realm) error {
		at, err := r.key(realm)
		if err != nil {
			return err
		}
		at.Name = name
		n, refusal := lifecycle.Read(realm, at, o.IncludeUninitialized)
		if refusal != nil {
			return refusal
		}
		found = proto.CloneOf(lifecycle.Object{Node: n, Body: realm.Body(n)}.API())
		if o.IncludeApplied {
			found.Metadata.Applied = bytes.Clone(realm.Body(n).GetApplied())
		}
		return nil
	})
	return found, err
}

func (r *resourceClient) List(ctx context.Context, opts ...client.ListOption) iter.Seq2[*client.Object, error] {
	return func(yield func(*client.Object, error) bool) {
		o := collect(opts, client.ListOption.ApplyToList)
		for {
			page, err := r.page(ctx, &o)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, object := range page.Objects {
				if !yield(object, nil) {
					return
				}
			}
			if o.Continue = page.Continue; o.Continue == "" {
				return
			}
		}
	}
}

func (r *resourceClient) ListPage(ctx context.Context, opts ...client.ListOption) (*client.Page, error) {
	o := collect(opts, client.ListOption.ApplyToList)
	return r.page(ctx, &o)
}

func (r *resourceClient) page(ctx context.Context, o *client.ListOptions) (*client.Page, error) {
	labels, err := parseSelector(o.LabelSelector)
	if err != nil {
		return nil, err
	}
	namespace, name, err := parseContinue(o.Continue)
	if err != nil {
		return nil, err
	}
	page := &client.Page{}
	err = r.c.read(ctx, o.Reply, func(realm *memrealm.Realm) error {
		at, err := r.key(realm)
		if err != nil {
			return err
		}
		if realm.Revision < o.MinRevision {
			return lifecycle.ErrBadRequest("min_revision: %d is in the future; the realm is at revision %d", o.MinRevision, realm.Revision)
		}
		page.Revision = realm.Revision
		for _, found := range objects(realm, at, labels, o.IncludeUninitialized) {
			if cmp.Or(cmp.Compare(found.Namespace, namespace), cmp.Compare(found.Name, name)) <= 0 {
				continue
			}
			if n := len(page.Objects); o.Limit > 0 && n == o.Limit {
				last := page.Objects[n-1].GetMetadata()
				page.Continue = base64.RawURLEncoding.EncodeToString([]byte(last.GetNamespace() + "\x00" + last.GetName()))
				break
			}
			object := proto.CloneOf(found.API())
			if o.IncludeApplied {
				object.Metadata.Applied = bytes.Clone(found.Body.GetApplied())
			}
			page.Objects = append(page.Objects, object)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return page, nil
}

// parseContinue returns the object after which a page begins, empty for the first page.
func parseContinue(token string) (namespace, name string, err error) {
	if token == "" {
		return "", "", nil
	}
	b, fail := base64.RawURLEncoding.DecodeString(token)
	namespace, name, ok := strings.Cut(string(b), "\x00")
	if fail != nil || !ok || name == "" {
		return "", "", lifecycle.ErrBadRequest("continue: %q is not what a reply gave", token)
	}
	return namespace, name, nil
}
