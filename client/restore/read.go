package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

var (
	namespaces = client.Resource{Plural: "namespaces"}
	settings   = client.Resource{Group: "coppice.dev", Plural: "realms"}
)

// fewObjects is the number of objects up to which each is read by its name. More are
// picked from a list.
const fewObjects = 20

// resolved is the number of uids that are resolved at once.
const resolved = 500

// plan reads what is not read yet, and computes the plan.
func (p *preparer) plan(ctx context.Context) (*Plan, error) {
	byRevision := map[uint64][]*member{}
	for _, m := range p.in.Cascade.Members {
		if p.in.Before[m.UID] == nil && !m.Created {
			byRevision[p.before[m.UID]] = append(byRevision[p.before[m.UID]], m)
		}
	}
	for _, revision := range slices.Sorted(maps.Keys(byRevision)) {
		if err := p.readBefore(ctx, revision, byRevision[revision]); err != nil {
			return nil, err
		}
	}
	if err := p.readNow(ctx); err != nil {
		return nil, err
	}
	p.registers = map[string]string{}
	for _, b := range p.in.Before {
		if b.Object.GetKind() != "Kind" {
			continue
		}
		if k, err := kindOf(b.Object); err == nil {
			p.registers[k.Group+"/"+k.Kind] = b.Object.GetMetadata().GetName()
		}
	}
	return build(p.in), nil
}

// at returns a client that reads the realm after a revision. It waits until the state is built.
func (p *preparer) at(ctx context.Context, revision uint64) (*client.Client, error) {
	if past := p.pasts[revision]; past != nil {
		return past, nil
	}
	past, err := p.c.At(ctx, client.Moment{Revision: revision})
	if err != nil {
		return nil, err
	}
	for {
		_, err := past.Resource(client.KindsResource, "").ListPage(ctx, client.Limit(1))
		if err == nil {
			break
		}
		if !client.IsBuilding(err) || ctx.Err() != nil {
			return nil, err
		}
	}
	if p.pasts == nil {
		p.pasts = map[uint64]*client.Client{}
	}
	p.pasts[revision] = past
	return past, nil
}

// readBefore reads members as they were at a revision, and which objects depended on them.
func (p *preparer) readBefore(ctx context.Context, revision uint64, members []*member) error {
	objects := map[string]*client.Object{}
	nodes := map[string]*coppicev1.GraphNode{}
	if revision > 0 {
		past, err := p.at(ctx, revision)
		if err != nil {
			return err
		}
		if objects, err = p.objects(ctx, past, members); err != nil {
			return err
		}
		uids := slices.Collect(maps.Keys(objects))
		for i := range p.in.Cascade.Lost {
			uids = append(uids, p.in.Cascade.Lost[i].UID)
		}
		slices.Sort(uids)
		if nodes, err = p.nodes(ctx, past, slices.Compact(uids)); err != nil {
			return err
		}
		if err := p.places(ctx, past, members); err != nil {
			return err
		}
		if err := p.dependents(ctx, past, objects, nodes); err != nil {
			return err
		}
	}
	for _, m := range members {
		o := p.overlaid(objects[m.UID], m)
		if o == nil {
			continue
		}
		p.in.Before[m.UID] = before(o, nodes[m.UID])
	}
	for i := range p.in.Cascade.Lost {
		u := p.in.Cascade.Lost[i].UID
		if n := nodes[u]; n != nil && p.in.Before[u] == nil && p.in.Cascade.Member(u) == nil {
			p.in.Before[u] = before(n.GetObject(), n)
		}
	}
	return nil
}

func before(o *client.Object, n *coppicev1.GraphNode) *formerObject {
	b := &formerObject{Object: o, UseStates: n.GetUseStates()}
	for _, owner := range n.GetOwners() {
		b.Classes = append(b.Classes, owner.GetClass())
	}
	return b
}

// overlaid returns the object with the changes that the commit of its deletion made before deleting it.
func (p *preparer) overlaid(o *client.Object, m *member) *client.Object {
	over := p.overlays[m.UID]
	if over == nil || over.before != p.before[m.UID] { // its deletion is in a later commit than the DELETE
		return o
	}
	n, b := over.node, over.body
	next := &client.Object{ApiVersion: n.GetApiVersion(), Kind: n.GetKind(), Metadata: &client.ObjectMeta{
		Name: n.GetName(), Namespace: n.GetNamespace(), Uid: m.UID, Generation: n.GetGeneration(), Finalizers: n.GetFinalizers(),
		OwnerReferences: ownersOf(n),
	}}
	if b == nil && o != nil {
		next.Spec, next.Status, next.Extra = o.GetSpec(), o.GetStatus(), o.GetExtra()
		next.Metadata.Labels, next.Metadata.Annotations, next.Metadata.GenerateName = o.Metadata.Labels, o.Metadata.Annotations, o.Metadata.GenerateName
	} else {
		next.Spec, next.Status, next.Extra = b.GetSpec(), b.GetStatus(), b.GetExtra()
		next.Metadata.Labels, next.Metadata.Annotations, next.Metadata.GenerateName = b.GetLabels(), b.GetAnnotations(), b.GetGenerateName()
	}
	if t := n.GetExpiresAt(); t != 0 {
		next.Metadata.ExpiresAt = timestamppb.New(time.UnixMicro(t))
	}
	for _, u := range n.GetUses() {
		next.Metadata.Uses = append(next.Metadata.Uses, &coppicev1.Use{
			Group: u.GetGroup(), Kind: u.GetKind(), Name: u.GetName(), Namespace: u.GetNamespace(), Uid: uid.UID(u.GetUid()).String(),
		})
	}
	return next
}

func ownersOf(n *coppicev1.Node) (refs []*client.OwnerReference) {
	for _, r := range n.GetOwners() {
		refs = append(refs, &client.OwnerReference{
			ApiVersion: r.GetApiVersion(), Kind: r.GetKind(), Name: r.GetName(), Uid: uid.UID(r.GetUid()).String(),
			Controller: r.Controller, BlockOwnerDeletion: r.BlockOwnerDeletion,
		})
	}
	return refs
}

// objects reads the objects that have the names of members, of those with the uids of members, by uid.
func (p *preparer) objects(ctx context.Context, from *client.Client, members []*member) (map[string]*client.Object, error) {
	wanted := map[string]bool{}
	for _, m := range members {
		wanted[m.UID] = true
	}
	found := map[string]*client.Object{}
	err := p.named(ctx, from, members, func(_ *member, o *client.Object) {
		if u := o.GetMetadata().GetUid(); wanted[u] {
			found[u] = o
		}
	})
	return found, err
}

// named calls found with each object that has the name of a member.
func (p *preparer) named(ctx context.Context, from *client.Client, members []*member, found func(*member, *client.Object)) error {
	groups := map[objectName]map[string]*member{}
	for _, m := range members {
		of := objectName{Resource: m.Resource, Namespace: m.Namespace}
		if groups[of] == nil {
			groups[of] = map[string]*member{}
		}
		groups[of][m.Name] = m
	}
	for of, names := range groups {
		objects := from.Resource(client.ParseResource(of.Resource), of.Namespace)
		if len(names) > fewObjects {
			for o, err := range objects.List(ctx, client.IncludeUninitialized(true)) {
				if errors.Is(err, client.ErrUnknownKind) {
					break
				}
				if err != nil {
					return err
				}
				if m := names[o.GetMetadata().GetName()]; m != nil {
					found(m, o)
				}
			}
			continue
		}
		for name, m := range names {
			o, err := objects.Get(ctx, name, client.IncludeUninitialized(true))
			if errors.Is(err, client.ErrNotFound) || errors.Is(err, client.ErrUnknownKind) {
				continue
			}
			if err != nil {
				return err
			}
			found(m, o)
		}
	}
	return nil
}

// nodes resolves uids.
func (p *preparer) nodes(ctx context.Context, from *client.Client, uids []string, opts ...client.GraphOption) (map[string]*coppicev1.GraphNode, error) {
	found := map[string]*coppicev1.GraphNode{}
	anything := from.Resource(client.KindsResource, "")
	for chunk := min(resolved, len(uids)); len(uids) > 0; {
		chunk = min(chunk, len(uids))
		g, err := anything.ResolveUIDs(ctx, uids[:chunk], opts...)
		if err != nil {
			return nil, err
		}
		if g.GetTruncated() && chunk > 1 {
			chunk /= 2
			continue
		}
		for _, n := range g.GetNodes() {
			found[n.GetObject().GetMetadata().GetUid()] = n
		}
		uids = uids[chunk:]
	}
	return found, nil
}

// dependents adds to the input the objects that had a valid reference to a member, are no members, and
// have lost no reference in the cascade.
func (p *preparer) dependents(ctx context.Context, past *client.Client, objects map[string]*client.Object, nodes map[string]*coppicev1.GraphNode) error {
	known := map[string]uint64{}
	count := func(o *client.Object) {
		seen := map[string]bool{}
		for _, r := range o.GetMetadata().GetOwnerReferences() {
			owner := objects[r.GetUid()]
			if owner == nil || seen[r.GetUid()] || !fits(o, r, owner) {
				continue
			}
			seen[r.GetUid()] = true
			known[r.GetUid()]++
		}
	}
	for u, n := range nodes {
		if objects[u] != nil || p.in.Cascade.Member(u) == nil {
			count(n.GetObject())
		}
	}
	for _, u := range slices.Sorted(maps.Keys(objects)) {
		if nodes[u].GetDependents() <= known[u] {
			continue
		}
		g, err := past.Resource(client.KindsResource, "").ResolveUIDs(ctx, []string{u}, client.FollowDependents(true))
		if err != nil {
			return err
		}
		if g.GetTruncated() && p.in.Unread[u] == 0 {
			if p.in.Unread == nil {
				p.in.Unread = map[string]uint64{}
			}
			p.in.Unread[u] = nodes[u].GetDependents()
		}
		for _, n := range g.GetNodes() {
			d := n.GetObject().GetMetadata()
			if p.in.Cascade.Member(d.GetUid()) == nil && nodes[d.GetUid()] == nil && slices.ContainsFunc(d.GetOwnerReferences(), func(r *client.OwnerReference) bool { return r.GetUid() == u }) {
				p.in.Dependents = append(p.in.Dependents, d.GetUid())
			}
		}
	}
	return nil
}

// fits reports whether a reference of o to an owner is valid.
func fits(o *client.Object, r *client.OwnerReference, owner *client.Object) bool {
	ns := owner.GetMetadata().GetNamespace()
	return api.GroupOf(r.GetApiVersion()) == api.GroupOf(owner.GetApiVersion()) && r.GetKind() == owner.GetKind() && r.GetName() == owner.GetMetadata().GetName() &&
		(ns == "" || ns == o.GetMetadata().GetNamespace())
}

// places finds out which namespaces of members had a Namespace object and have none now, and which of
// their kinds are being deleted.
func (p *preparer) places(ctx context.Context, past *client.Client, members []*member) error {
	object := func(from *client.Client, of client.Resource, name string) (*client.Object, error) {
		o, err := from.Resource(of, "").Get(ctx, name, client.IncludeUninitialized(true))
		if errors.Is(err, client.ErrNotFound) || errors.Is(err, client.ErrUnknownKind) {
			return nil, nil //nolint:nilnil // there is none
		}
		return o, err
	}
	for _, m := range members {
		if _, ok := p.ending[m.Resource]; ok {
			continue
		}
		is, err := object(p.c, client.KindsResource, m.Resource)
		if err != nil && !errors.Is(err, client.ErrForbidden) { // a role may list kinds alone: it restores what it can
			return err
		}
		p.ending[m.Resource] = is.GetMetadata().GetDeletionTimestamp() != nil
	}
	for _, m := range members {
		if _, ok := p.placed[m.Namespace]; ok || m.Namespace == "" {
			continue
		}
		was, err := object(past, namespaces, m.Namespace)
		if err != nil {
			return err
		}
		is, err := object(p.c, namespaces, m.Namespace)
		if err != nil {
			return err
		}
		switch {
		case is.GetMetadata().GetDeletionTimestamp() != nil:
			p.placed[m.Namespace] = fmt.Sprintf("its namespace %s is being deleted", m.Namespace)
		case was != nil && is == nil:
			p.placed[m.Namespace] = fmt.Sprintf("its namespace %s is gone; restore or create that first", m.Namespace)
		default:
			p.placed[m.Namespace] = ""
		}
	}
	return nil
}

// readNow reads what exists now and may matter.
func (p *preparer) readNow(ctx context.Context) error {
	var uids []string
	across := false // an object uses one in another namespace
	for _, m := range p.in.Cascade.Members {
		o := p.in.Before[m.UID].object()
		for _, r := range o.GetMetadata().GetOwnerReferences() {
			uids = append(uids, r.GetUid())
		}
		for _, u := range o.GetMetadata().GetUses() {
			uids = append(uids, u.GetUid())
			across = across || u.GetNamespace() != ""
		}
		uids = append(uids, p.in.Cascade.Restored(m)...)
	}
	for i := range p.in.Cascade.Lost {
		uids = append(uids, p.in.Cascade.Lost[i].UID)
	}
	uids = append(uids, p.in.Dependents...)
	slices.Sort(uids)
	uids = slices.DeleteFunc(slices.Compact(uids), func(u string) bool { return u == "" })
	var err error
	if p.in.Now, err = p.nodes(ctx, p.c, uids, client.MinRevision(max(p.last, p.c.Revision()))); err != nil {
		return err
	}
	if across {
		if p.in.Shared, err = p.shared(ctx); err != nil {
			return err
		}
	}
	p.in.Taken = map[objectName]string{}
	return p.named(ctx, p.c, p.in.Cascade.Members, func(m *member, o *client.Object) {
		p.in.Taken[objectName{m.Resource, m.Namespace, m.Name}] = o.GetMetadata().GetUid()
	})
}

// shared returns which namespaces the realm settings share.
func (p *preparer) shared(ctx context.Context) (func(namespace string) bool, error) {
	o, err := p.c.Resource(settings, "").Get(ctx, "settings")
	if err != nil && !errors.Is(err, client.ErrNotFound) {
		return nil, err
	}
	var spec struct {
		SharedNamespaces []string `json:"sharedNamespaces"`
	}
	if raw := o.GetSpec(); len(raw) > 0 {
		if err := json.Unmarshal(raw, &spec); err != nil {
			return nil, fmt.Errorf("the realm settings: %w", err)
		}
	}
	return func(ns string) bool {
		return slices.Contains(spec.SharedNamespaces, ns) || slices.Contains(spec.SharedNamespaces, "*")
	}, nil
}

func (b *formerObject) object() *client.Object {
	if b == nil {
		return nil
	}
	return b.Object
}

// kindOf returns the kind that an object registers.
func kindOf(o *client.Object) (k client.Kind, err error) {
	return k, json.Unmarshal(o.GetSpec(), &k)
}
