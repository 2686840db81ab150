package serve

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/selector"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Page is a page of a list: the objects of a kind that match, after a cursor.
type Page struct {
	Kind      *lifecycle.Kind
	Namespace string // empty: all
	Labels    selector.Selector
	After     state.NameCursor
	Limit     int // objects
	MaxBytes  int
	MaxLooks  int // objects looked at

	Uninitialized bool // also objects that are not initialized
}

// Each calls visit for the objects of the page. next is where the next page starts, zero
// after the last page.
func (p *Page) Each(snap *state.Snapshot, visit func(lifecycle.Object)) (next state.NameCursor) {
	size, found, looks := 0, 0, 0
	after := p.After
	names := snap.NameReader(p.Kind, p.Namespace, after)
	defer names.Close()
	for {
		chunk, last := names.Next()
		names.Bare(looks > rare*max(found, 1))
		if !last && !p.fullWith(len(chunk), looks, found, size) {
			names.Ahead() // while the bodies of these are read, one by one
		}
		for _, e := range chunk {
			looks++
			if o, ok := p.match(snap, e); ok {
				bytes := SizeOf(&o)
				if found > 0 && (found >= p.Limit && p.Limit > 0 || size+bytes > p.MaxBytes) {
					return after
				}
				visit(o)
				found++
				size += bytes
			}
			after = e.NameCursor
			if p.MaxLooks > 0 && looks >= p.MaxLooks {
				return after
			}
		}
		if last {
			return state.NameCursor{}
		}
	}
}

// SizeOf returns the approximate size of an object in a reply, in bytes.
func SizeOf(o *lifecycle.Object) int {
	return proto.Size(o.Body) + 512 + len(o.Name) + 256*(len(o.Owners)+len(o.Uses))
}

// If fewer than one in rare objects matches, nodes are not read in batches, but only for
// the objects that match. To read a node by itself takes several times as long.
const rare = 8

// fullWith estimates, from the objects that were read and that matched, whether the page is full
// after a number of further objects (more). Then reading ahead is useless.
func (p *Page) fullWith(more, looks, found, size int) bool {
	if looks > 2*found {
		return false // most are left out
	}
	object := 1 << 10
	if found > 0 {
		object = size / found
	}
	return p.Limit > 0 && found+more >= p.Limit || size+more*object >= p.MaxBytes
}

// match reads the object, and reports whether it belongs on the page.
func (p *Page) match(snap *state.Snapshot, e state.Named) (o lifecycle.Object, ok bool) {
	if n := e.Node; n != nil && n.Uninitialized() && !p.Uninitialized {
		return o, false // its body is not read
	}
	o.Body = snap.BodyOf(e.UID)
	if !p.Labels.Matches(o.Body.GetLabels()) {
		return o, false
	}
	if o.Node = e.Node; o.Node == nil {
		o.Node = snap.Node(e.UID)
	}
	// Without a node the snapshot has failed.
	return o, o.Node != nil && (p.Uninitialized || !o.Uninitialized())
}

// Limits of a label selector: each object of a list is compared with all of it.
const (
	maxSelector     = 64 << 10 // bytes
	maxRequirements = 256
)

// ParseLabels parses a label selector.
func ParseLabels(text string) (selector.Selector, *lifecycle.Error) {
	if len(text) > maxSelector {
		return nil, &lifecycle.Error{Reason: api.ErrRequestEntityTooLarge, Message: fmt.Sprintf(
			"label_selector: %d bytes; at most %d: select by fewer values, or in several requests", len(text), maxSelector)}
	}
	labels, err := selector.Parse(text)
	if err != nil {
		return nil, lifecycle.ErrBadRequest("label_selector: %v", err)
	}
	if len(labels) > maxRequirements {
		return nil, &lifecycle.Error{Reason: api.ErrRequestEntityTooLarge, Message: fmt.Sprintf(
			"label_selector: %d requirements; at most %d", len(labels), maxRequirements)}
	}
	return labels, nil
}
