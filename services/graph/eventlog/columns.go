package eventlog

import (
	"cmp"
	"errors"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/coppice-gc/coppice/internal/codec/nodecodec"
	"github.com/coppice-gc/coppice/internal/codec/wire"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// table numbers the strings that columns point to.
type table struct {
	list  []string
	index map[string]uint32
	size  int
}

func (t *table) number(s string) uint32 {
	if n := len(t.list); n > 0 && t.list[n-1] == s {
		return uint32(n - 1)
	}
	if n, ok := t.index[s]; ok {
		return n
	}
	if t.index == nil {
		t.index = map[string]uint32{}
	}
	n := uint32(len(t.list))
	t.list, t.index[s] = append(t.list, s), n
	t.size += len(s) + overhead
	return n
}

func (t *table) truncate(n int) {
	for _, s := range t.list[n:] {
		delete(t.index, s)
		t.size -= len(s) + overhead
	}
	t.list = t.list[:n]
}

// group is a sequence of events that differ only in the object and the cause.
type group struct {
	n          int
	typ        lifecycle.EventType
	command    int
	reason     coppicev1.Reason
	shared     []byte // encoding of the fields that they share
	uids       []byte
	resources  column
	namespaces column
	names      []byte
	causes     column
	first      uint64 // cause of the first
	last       uint64
}

// column is a packed repeated field. It has a single entry if all values are the same.
type column struct {
	b      []byte
	first  uint64
	same   bool
	length int
}

func (c *column) add(v uint64) {
	if c.length == 0 {
		c.first, c.same = v, true
	}
	c.same = c.same && v == c.first
	c.b = protowire.AppendVarint(c.b, v)
	c.length++
}

func (c *column) reset() { c.b, c.length = c.b[:0], 0 }

// column adds an event to the current group, or starts another group.
func (b *Builder) column(e *lifecycle.Event, n *lifecycle.Node, resource string) {
	b.scratch = appendShared(b.scratch[:0], e)
	g := &b.group
	if g.n > 0 && (g.typ != e.Type || g.command != len(b.commands)-1 || g.reason != e.Reason || string(g.shared) != string(b.scratch)) {
		b.flush()
	}
	if g.n == 0 {
		g.typ, g.command, g.reason = e.Type, len(b.commands)-1, e.Reason
		g.shared = append(g.shared[:0], b.scratch...)
		g.first, g.last = e.Cause, e.Cause
	}
	g.n++
	g.uids = append(g.uids, n.UID...)
	g.resources.add(uint64(b.resources.number(resource)))
	g.namespaces.add(uint64(b.namespaces.number(n.Namespace)))
	g.names = protowire.AppendTag(g.names, idNames, protowire.BytesType)
	g.names = protowire.AppendString(g.names, n.Name)
	g.causes.add(protowire.EncodeZigZag(int64(e.Cause - g.last)))
	g.last = e.Cause
}

// appendShared encodes the fields that the events of a group share, except type and
// reason.
func appendShared(b []byte, e *lifecycle.Event) []byte {
	switch e.Type {
	case lifecycle.OwnerReferencesRemoved:
		var room [256]byte
		for i := range e.References {
			r := e.References[i]
			r.Controller, r.Blocking = lifecycle.Unsaid, lifecycle.Unsaid
			b = wire.AppendBytes(b, columnShared, nodecodec.AppendOwner(room[:0], &r))
		}
	case lifecycle.FinalizerRemoved, lifecycle.ObjectDeleted:
		for _, f := range e.Finalizers {
			b = wire.AppendBytes(b, columnShared, f)
		}
	case lifecycle.DeletionMarked:
		b = wire.AppendVarint(b, markTime, uint64(e.Mark.Time))
		if e.Mark.GracePeriod != nil {
			b = protowire.AppendTag(b, markGrace, protowire.VarintType)
			b = protowire.AppendVarint(b, uint64(*e.Mark.GracePeriod))
		}
		b = wire.AppendVarint(b, markGeneration, uint64(e.Mark.Generation))
		for _, f := range e.Mark.Finalizers {
			b = wire.AppendBytes(b, markFinalizers, f)
		}
		b = wire.AppendVarint(b, markAwaited, uint64(e.Mark.AwaitedGeneration))
	}
	return b
}

// flush writes the group.
func (b *Builder) flush() {
	g := &b.group
	if g.n == 0 {
		return
	}
	event, content := b.open(g.reason, g.first, groupFields[g.typ])
	var objects int
	b.b, objects = wire.Open(b.b, columnObjects)
	b.b = wire.AppendBytes(b.b, idUIDs, g.uids)
	b.b = appendColumn(b.b, idResources, &g.resources)
	b.b = appendColumn(b.b, idNamespaces, &g.namespaces)
	b.b = append(b.b, g.names...)
	if !g.causes.same {
		b.b = wire.AppendBytes(b.b, idCauses, g.causes.b)
	}
	b.b = append(wire.Close(b.b, objects), g.shared...)
	b.close(event, content)
	g.reset()
}

func (g *group) reset() {
	g.n = 0
	g.uids, g.names = g.uids[:0], g.names[:0]
	g.resources.reset()
	g.namespaces.reset()
	g.causes.reset()
}

var groupFields = map[lifecycle.EventType]protowire.Number{
	lifecycle.DeletionMarked:         eventMarked,
	lifecycle.OwnerReferencesRemoved: eventOwnersRemoved,
	lifecycle.FinalizerRemoved:       eventFinalizerRemoved,
	lifecycle.ObjectDeleted:          eventDeleted,
}

func appendColumn(b []byte, field protowire.Number, c *column) []byte {
	if !c.same {
		return wire.AppendBytes(b, field, c.b)
	}
	return wire.AppendBytes(b, field, protowire.AppendVarint(nil, c.first))
}

func (r *run) decodeColumns(m []byte) error {
	e := &r.event
	fields := wire.Read(m)
	for f, ok := fields.Next(); ok; f, ok = fields.Next() {
		switch {
		case f.Number == columnObjects:
			if err := r.decodeIdentities(f.Bytes(m)); err != nil {
				return err
			}
		case e.Type == lifecycle.DeletionMarked:
			decodeMark(&e.Mark, f, m)
		case f.Number == columnShared && e.Type == lifecycle.OwnerReferencesRemoved:
			o, err := nodecodec.DecodeOwner(f.Bytes(m), string(f.Bytes(m)))
			if err != nil {
				return err
			}
			e.References = append(e.References, o)
		case f.Number == columnShared:
			e.Finalizers = append(e.Finalizers, string(f.Bytes(m)))
		}
	}
	switch {
	case fields.Err() != nil:
		return fields.Err()
	case len(r.causes) > 0 && len(r.causes) != len(r.uids):
		return errors.New("columns of different length")
	case e.Type == lifecycle.FinalizerRemoved && len(e.Finalizers) != 1:
		return errors.New("no finalizer")
	}
	return nil
}

func decodeMark(m *lifecycle.Mark, f wire.Field, b []byte) {
	switch f.Number {
	case markTime:
		m.Time = lifecycle.Time(f.Value)
	case markGrace:
		grace := int64(f.Value)
		m.GracePeriod = &grace
	case markGeneration:
		m.Generation = int64(f.Value)
	case markFinalizers:
		m.Finalizers = append(m.Finalizers, string(f.Bytes(b)))
	case markAwaited:
		m.AwaitedGeneration = int64(f.Value)
	}
}

func (r *run) decodeIdentities(m []byte) (err error) {
	fields := wire.Read(m)
	for f, ok := fields.Next(); ok && err == nil; f, ok = fields.Next() {
		switch f.Number {
		case idUIDs:
			r.uids, err = uid.Unpack(slices.Grow(r.uids, (f.End-f.Start)/uid.PackedUUID), f.Bytes(m))
		case idCauses:
			r.causes, err = wire.Varints(slices.Grow(r.causes, f.End-f.Start), f.Bytes(m))
		}
	}
	return cmp.Or(err, fields.Err())
}
