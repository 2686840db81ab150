package restore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/api"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Request says what to restore: a cascade, or single objects.
type Request struct {
	// CascadeOf is the revision of a DELETE: everything that it has removed is restored.
	CascadeOf uint64
	// UIDs are those of removed objects. Each is restored as it was before its deletion, without
	// its dependents.
	UIDs []string
	Options
	// OnProgress, if it is set, is called while the log is read, with the number of commits
	// that were read and of all that are to be read.
	OnProgress func(done, total uint64)
}

// Prepare plans a restoration, and changes nothing. If a rule refuses it, the plan has Refusals.
// ErrExpired says that neither the log nor the archive goes back to the deletion.
func Prepare(ctx context.Context, c *client.Client, r Request) (*Plan, error) {
	if (r.CascadeOf == 0) == (len(r.UIDs) == 0) {
		return nil, errors.New("restore: name the revision of a deletion, or uids")
	}
	kinds, err := c.Kinds(ctx)
	if err != nil {
		return nil, err
	}
	p := &preparer{
		c: c, kinds: kinds, names: kinds.ResourceName, request: r, before: map[string]uint64{}, placed: map[string]string{}, ending: map[string]bool{}, overlays: map[string]*overlay{},
		in: &input{Options: r.Options, Before: map[string]*formerObject{}, Time: time.Now(), NewUID: func() string { return uuid.Must(uuid.NewV7()).String() }},
	}
	p.in.Unplaced = p.unplaced
	if r.CascadeOf != 0 {
		p.note = fmt.Sprintf("cascade of revision %d", r.CascadeOf)
		err = p.cascade(ctx, r.CascadeOf)
	} else {
		p.note = strings.Join(r.UIDs[:min(len(r.UIDs), 3)], ", ")
		if len(r.UIDs) > 3 {
			p.note += fmt.Sprintf(" and %d more", len(r.UIDs)-3)
		}
		err = p.selection(ctx, r.UIDs)
	}
	for err == nil {
		var plan *Plan
		if plan, err = p.plan(ctx); err != nil {
			break
		}
		more := slices.DeleteFunc(slices.Clone(plan.Gone), func(u string) bool { return p.searched[u] })
		if !r.WithOwners || len(more) == 0 {
			plan.note, plan.c = p.note, c
			return plan, nil
		}
		err = p.owners(ctx, more)
	}
	return nil, fmt.Errorf("restore: %w", err)
}

// preparer reads what a plan needs.
type preparer struct {
	c       *client.Client
	kinds   *client.Kinds
	names   func(apiVersion, kind string) string
	request Request
	note    string
	in      *input

	before   map[string]uint64   // by the uid of a member: the revision at which it is read
	first    uint64              // that of the cascade
	last     uint64              // the last revision of the log that was read
	overlays map[string]*overlay // by uid: objects that were changed in the commit of their deletion, before it
	searched map[string]bool     // uids whose deletion was looked for
	placed   map[string]string   // what is wrong with a namespace, once it was asked for
	ending   map[string]bool     // by the resource of a kind, once it was asked for: whether the kind is being deleted
	// registers has, by group and kind, the names of the objects before the deletion that register
	// kinds.
	registers map[string]string
	pasts     map[uint64]*client.Client
}

// overlay is an object after the last event that changed it before its deletion, in the same commit.
type overlay struct {
	before uint64 // the revision before the commit
	node   *coppicev1.Node
	body   *coppicev1.Body
}

// cascade reads the log from a DELETE on.
func (p *preparer) cascade(ctx context.Context, revision uint64) error {
	c := newCascade(revision)
	p.in.Cascade = c
	return p.read(ctx, c, revision, func(commit *coppicev1.Commit) {
		for _, m := range c.Members {
			if _, ok := p.before[m.UID]; !ok {
				if p.first == 0 {
					p.first = commit.GetFirstRevision() - 1
				}
				p.before[m.UID] = p.first
			}
		}
	})
}

// read reads the log from the commit with a revision on into a cascade.
func (p *preparer) read(ctx context.Context, c *cascade, from uint64, added func(*coppicev1.Commit)) error {
	last, err := p.c.Log().Last(ctx)
	if err != nil {
		return err
	}
	first, begun := uint64(0), false
	for commit, err := range p.c.Log().Read(ctx, client.FromRevision(from), client.ToSequence(last)) {
		if err != nil {
			return err
		}
		if !begun {
			first, begun = commit.Sequence, true
			if end := commit.GetFirstRevision() + uint64(len(expand(commit.Commit, p.names))); from >= end {
				return fmt.Errorf("revision %d is not in the log yet; its last is %d", from, end-1)
			}
		}
		members := len(c.Members)
		if err := c.Add(commit.Commit, p.names); err != nil {
			return err
		}
		if len(c.Members) > members {
			p.overlay(commit.Commit, c.Members[members:])
		}
		p.last = max(p.last, c.last)
		added(commit.Commit)
		if p.request.OnProgress != nil {
			p.request.OnProgress(commit.Sequence-first+1, last-first+1)
		}
	}
	if !begun && ctx.Err() == nil {
		return fmt.Errorf("revision %d is not in the log yet", from)
	}
	return ctx.Err()
}

// overlay remembers what a commit has written to objects before it deleted them.
func (p *preparer) overlay(commit *coppicev1.Commit, members []*member) {
	deleted := map[string]uint64{}
	for _, m := range members {
		deleted[m.UID] = m.Deletion
	}
	revision := commit.GetFirstRevision()
	for _, e := range commit.GetEvents() {
		var node *coppicev1.Node
		var body *coppicev1.Body
		switch v := e.GetEvent().(type) {
		case *coppicev1.Event_Created:
			node, body = v.Created.GetNode(), v.Created.GetBody()
		case *coppicev1.Event_Updated:
			node, body = v.Updated.GetNode(), v.Updated.GetBody()
		}
		one := &coppicev1.Commit{FirstRevision: revision, Commands: commit.GetCommands(), Resources: commit.GetResources(), Namespaces: commit.GetNamespaces(), Events: []*coppicev1.Event{e}}
		events := client.Events(one, p.names)
		revision += uint64(len(events))
		if node == nil || len(events) != 1 || deleted[events[0].UID] <= events[0].Revision {
			continue
		}
		o := p.overlays[events[0].UID]
		if o == nil {
			o = &overlay{before: commit.GetFirstRevision() - 1}
			p.overlays[events[0].UID] = o
		}
		if o.node = node; body != nil {
			o.body = body
		}
	}
}

// selection reads the log from the deletions of single objects on.
func (p *preparer) selection(ctx context.Context, uids []string) error {
	found, err := p.deletions(ctx, uids)
	if err != nil {
		return err
	}
	for _, u := range uids {
		if found[u] == 0 {
			return fmt.Errorf("neither the log nor the archive has the deletion of an object with the uid %s", u)
		}
	}
	p.in.Cascade, err = p.selected(ctx, found)
	return err
}

// owners adds owners and used objects that are gone.
func (p *preparer) owners(ctx context.Context, uids []string) error {
	found, err := p.deletions(ctx, uids)
	if err != nil || len(found) == 0 {
		return err
	}
	more, err := p.selected(ctx, found)
	if err == nil {
		p.in.Cascade.Merge(more)
	}
	return err
}

// selected reads the log from the first of some deletions on. An object that was deleted after the
// cascade had begun is restored as it was before the cascade.
func (p *preparer) selected(ctx context.Context, deletions map[string]uint64) (*cascade, error) {
	only, from := map[string]bool{}, uint64(0)
	for u, revision := range deletions {
		only[u] = true
		if from == 0 || revision < from {
			from = revision
		}
	}
	c := newSelection(only)
	c.Revision = from
	return c, p.read(ctx, c, from, func(commit *coppicev1.Commit) {
		for _, m := range c.Members {
			if _, ok := p.before[m.UID]; !ok {
				at := commit.GetFirstRevision() - 1
				if p.first != 0 {
					at = min(at, p.first)
				}
				p.before[m.UID] = at
			}
		}
	})
}

// Chunks of commits that are searched for a deletion.
const (
	firstChunk = 1 << 10
	maxChunk   = 1 << 16
)

// maxUIDs is the maximum number of uids of which one read of the log asks for the commits.
const maxUIDs = 1000

// deletions returns the revisions of the first deletions of objects, of those that are found.
func (p *preparer) deletions(ctx context.Context, uids []string) (map[string]uint64, error) {
	if p.searched == nil {
		p.searched = map[string]bool{}
	}
	found := map[string]uint64{}
	for some := range slices.Chunk(uids, maxUIDs) {
		for _, u := range some {
			p.searched[u] = true
		}
		of, err := p.deletionsOf(ctx, some)
		if err != nil {
			return nil, err
		}
		maps.Copy(found, of)
	}
	return found, nil
}

// deletionsOf is deletions for at most maxUIDs objects. It reads the log backwards until it has found the
// creation of each.
func (p *preparer) deletionsOf(ctx context.Context, uids []string) (map[string]uint64, error) {
	wanted, found := map[string]bool{}, map[string]uint64{}
	for _, u := range uids {
		wanted[u] = true
	}
	asked := maps.Clone(wanted)
	high, err := p.c.Log().Last(ctx)
	if err != nil {
		return nil, err
	}
	chunk := uint64(firstChunk)
	for high > 0 && len(wanted) > 0 {
		low := high - min(high, chunk) + 1
		for commit, err := range p.c.Log().Read(ctx, client.FromSequence(low), client.ToSequence(high), client.ForUIDs(uids)) {
			if errors.Is(err, client.ErrExpired) && low < high {
				chunk = (high - low + 1) / 2 // the log begins within the chunk
				low = high + 1
				break
			}
			if errors.Is(err, client.ErrExpired) {
				return found, nil
			}
			if err != nil {
				return nil, err
			}
			for _, e := range client.Events(commit.Commit, p.names) {
				switch {
				case !asked[e.UID]:
				case e.Type == typeCreated:
					delete(wanted, e.UID)
				case e.Type == typeMarked || e.Type == typeDeleted:
					if at := found[e.UID]; at == 0 || e.Revision < at {
						found[e.UID] = e.Revision
					}
				}
			}
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if low > high {
			continue
		}
		high = low - 1
		chunk = min(2*chunk, maxChunk)
	}
	return found, nil
}

// unplaced says why the kind or the namespace of an object cannot have it.
func (p *preparer) unplaced(o *client.Object, restored func(resource, name string) bool) string {
	k, ok := p.kinds.Of(o.GetApiVersion(), o.GetKind())
	_, version, grouped := strings.Cut(o.GetApiVersion(), "/")
	if !grouped {
		version = o.GetApiVersion()
	}
	switch {
	case !ok:
		if why := p.kindMissing(o, restored); why != "" {
			return why
		}
	case !slices.ContainsFunc(k.Versions, func(v client.KindVersion) bool { return v.Name == version }):
		return fmt.Sprintf("its kind has no version %s any more", version)
	case p.ending[k.Resource()]:
		return fmt.Sprintf("its kind %s is being deleted; wait until that is over, and register it again", k.Resource())
	}
	ns := o.GetMetadata().GetNamespace()
	if why := p.placed[ns]; why != "" && !restored(namespaces.Plural, ns) {
		return why
	}
	return ""
}

// kindMissing says that a kind is missing, unless the object that registers it is restored.
func (p *preparer) kindMissing(o *client.Object, restored func(resource, name string) bool) string {
	if name, ok := p.registers[api.GroupOf(o.GetApiVersion())+"/"+o.GetKind()]; ok && restored(client.KindsResource.String(), name) {
		return ""
	}
	return fmt.Sprintf("its kind %s (%s) is not registered; register it, and try again", o.GetKind(), o.GetApiVersion())
}
