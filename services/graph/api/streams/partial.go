package streams

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/access"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// readsAll reports whether replies may have the log as it is: all objects, and their past values.
func readsAll(rules *access.Rules) bool { return rules.SeesAll() && rules.MayAll(bus.VerbReadPast) }

// partial returns the entry with the events of a commit that the rules let the actor see; nil if there are none.
func (r *logReading) partial(e *coppicev1.LogEntry, commit []byte) *coppicev1.LogEntry {
	e.Stored, e.Partial = nil, true
	var c coppicev1.Commit
	if err := proto.Unmarshal(commit, &c); err != nil {
		e.Unreadable = err.Error()
		return e
	}
	p := partialCommit{of: &c, rules: r.rules, kinds: r.s.State.Kinds()}
	seen := p.commit()
	if len(r.mention)+len(r.also) == 0 { // what a filter selects of the rest must not be known
		r.leftOut += p.leftOut
	}
	if seen == nil {
		return nil
	}
	data, err := proto.Marshal(seen)
	if err != nil {
		e.Unreadable = err.Error()
		return e
	}
	if !r.matches(data) {
		return nil
	}
	e.Commit = seen
	return e
}

// partialCommit is the part of a commit that an actor may see. Events that it may not see become EventsLeftOut, so that the
// others keep their revisions.
type partialCommit struct {
	of      *coppicev1.Commit
	rules   *access.Rules
	kinds   *lifecycle.Kinds
	events  []*coppicev1.Event
	seen    int    // events with an object that the actor may see
	leftOut uint64 // events that it may not see, also those about the realm
}

// commit returns the part, nil if the actor may see nothing of the commit.
func (p *partialCommit) commit() *coppicev1.Commit {
	for _, e := range p.of.GetEvents() {
		p.event(e)
	}
	if p.seen == 0 {
		return nil
	}
	c := &coppicev1.Commit{
		RealmId: p.of.GetRealmId(), Id: p.of.GetId(), Epoch: p.of.GetEpoch(), Time: p.of.GetTime(), FirstRevision: p.of.GetFirstRevision(),
		Sequence: p.of.GetSequence(), Position: p.of.GetPosition(), Format: p.of.GetFormat(), Events: p.events,
	}
	p.columns(c)
	p.commands(c)
	return c
}

// commands copies the commands of the events, without their replies.
func (p *partialCommit) commands(c *coppicev1.Commit) {
	index := map[uint32]uint32{}
	for _, e := range c.GetEvents() {
		was := e.GetCommand()
		if e.GetLeftOut() != nil || int(was) >= len(p.of.GetCommands()) {
			e.Command = 0
			continue
		}
		at, known := index[was]
		if !known {
			at = uint32(len(c.GetCommands()))
			index[was] = at
			by := p.of.GetCommands()[was]
			c.Commands = append(c.Commands, &coppicev1.Command{Id: by.GetId(), Actor: by.GetActor(), Verb: by.GetVerb(), Note: by.GetNote()})
		}
		e.Command = at
	}
}

// columns copies the resources and namespaces to which the events refer.
func (p *partialCommit) columns(c *coppicev1.Commit) {
	refer := func(column []uint32, from []string, to *[]string) {
		for i, at := range column {
			text := ""
			if int(at) < len(from) {
				text = from[at]
			}
			k := slices.Index(*to, text)
			if k < 0 {
				k = len(*to)
				*to = append(*to, text)
			}
			column[i] = uint32(k)
		}
	}
	for _, e := range c.GetEvents() {
		if ids := identitiesOf(e); ids != nil {
			refer(ids.GetResources(), p.of.GetResources(), &c.Resources)
			refer(ids.GetNamespaces(), p.of.GetNamespaces(), &c.Namespaces)
		}
	}
}

// identitiesOf returns the column of objects of an event, nil if it has none.
func identitiesOf(e *coppicev1.Event) *coppicev1.Identities {
	switch v := e.GetEvent().(type) {
	case *coppicev1.Event_DeletionMarked:
		return v.DeletionMarked.GetObject()
	case *coppicev1.Event_OwnerReferencesRemoved:
		return v.OwnerReferencesRemoved.GetObjects()
	case *coppicev1.Event_FinalizerRemoved:
		return v.FinalizerRemoved.GetObjects()
	case *coppicev1.Event_Deleted:
		return v.Deleted.GetObjects()
	}
	return nil
}

// setIdentities sets the column of objects of an event that has one.
func setIdentities(e *coppicev1.Event, ids *coppicev1.Identities) {
	switch v := e.GetEvent().(type) {
	case *coppicev1.Event_DeletionMarked:
		v.DeletionMarked.Object = ids
	case *coppicev1.Event_OwnerReferencesRemoved:
		v.OwnerReferencesRemoved.Objects = ids
	case *coppicev1.Event_FinalizerRemoved:
		v.FinalizerRemoved.Objects = ids
	case *coppicev1.Event_Deleted:
		v.Deleted.Objects = ids
	}
}

// event adds what the actor may see of an event.
func (p *partialCommit) event(e *coppicev1.Event) {
	switch v := e.GetEvent().(type) {
	case *coppicev1.Event_Created:
		if n := v.Created.GetNode(); p.node(e, n) && !p.values(n) {
			v.Created.Body = nil
		}
	case *coppicev1.Event_Updated:
		if n := v.Updated.GetNode(); p.node(e, n) && !p.values(n) {
			v.Updated.Body = nil
		}
	default:
		if ids := identitiesOf(e); ids != nil {
			p.each(e, ids)
			return
		}
		p.leftOut++ // about the realm, without a revision
	}
}

// node adds an event about one object, and reports whether the actor may see it.
func (p *partialCommit) node(e *coppicev1.Event, n *coppicev1.Node) bool {
	resource := p.resource(n)
	if resource == "" || !p.sees(resource, n.GetNamespace()) {
		p.hide(1)
		return false
	}
	p.events = append(p.events, e)
	p.seen++
	return true
}

// resource returns the resource of a node, "" if its kind is not known any more.
func (p *partialCommit) resource(n *coppicev1.Node) string {
	if k := p.kinds.Of(lifecycle.GroupOf(n.GetApiVersion()), n.GetKind()); k != nil {
		return k.Resource()
	}
	return ""
}

// sees reports whether the actor may know of the events of an object.
func (p *partialCommit) sees(resource, namespace string) bool {
	return p.rules.Sees(resource, namespace) || p.rules.May(bus.VerbReadPast, resource, namespace)
}

// values reports whether the actor may read the values that an object had.
func (p *partialCommit) values(n *coppicev1.Node) bool {
	return p.rules.May(bus.VerbReadPast, p.resource(n), n.GetNamespace())
}

// hide adds events that are left out.
func (p *partialCommit) hide(count uint64) {
	p.leftOut += count
	if n := len(p.events); n > 0 && p.events[n-1].GetLeftOut() != nil {
		p.events[n-1].GetLeftOut().Revisions += count
		return
	}
	p.events = append(p.events, &coppicev1.Event{Event: &coppicev1.Event_LeftOut{LeftOut: &coppicev1.EventsLeftOut{Revisions: count}}})
}

// each adds an event in columns as an event for each run of objects that the actor may see.
func (p *partialCommit) each(e *coppicev1.Event, ids *coppicev1.Identities) {
	at := func(column []uint32, i int) uint32 {
		switch {
		case len(column) == 1:
			return column[0]
		case i < len(column):
			return column[i]
		}
		return 0
	}
	text := func(table []string, at uint32) string {
		if int(at) < len(table) {
			return table[at]
		}
		return ""
	}
	var run *coppicev1.Event
	var column *coppicev1.Identities
	i, cause, last := 0, int64(e.GetCause()), int64(0)
	for u := range uid.All(ids.GetUids()) {
		if i < len(ids.GetCauses()) {
			cause += ids.GetCauses()[i]
		}
		resource, namespace := at(ids.GetResources(), i), at(ids.GetNamespaces(), i)
		name := ""
		if i < len(ids.GetNames()) {
			name = ids.GetNames()[i]
		}
		i++
		if r := text(p.of.GetResources(), resource); r == "" || !p.sees(r, text(p.of.GetNamespaces(), namespace)) {
			p.hide(1)
			run = nil
			continue
		}
		if run == nil {
			setIdentities(e, nil) // not copied
			run = proto.Clone(e).(*coppicev1.Event)
			column = &coppicev1.Identities{}
			run.Cause, last = uint64(cause), cause
			setIdentities(run, column)
			p.events = append(p.events, run)
			p.seen++
		}
		column.Uids = append(column.Uids, u...)
		column.Names = append(column.Names, name)
		column.Resources, column.Namespaces = append(column.Resources, resource), append(column.Namespaces, namespace)
		if len(ids.GetCauses()) > 0 {
			column.Causes = append(column.Causes, cause-last)
			last = cause
		}
	}
}
