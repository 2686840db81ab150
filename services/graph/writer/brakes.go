package writer

import (
	"maps"
	"slices"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// countDeletion counts an event that is about to be added, if a brake counts it.
func (d *OpenCommit) countDeletion(p encodedEvent) {
	if k, b, counted := lifecycle.CountDeletion(d.Tx, p.e, p.n, d.Ctx.Now); counted {
		d.setBrake(k.Resource(), b)
	}
}

// trip records that the brake of a kind is tripped.
func (d *OpenCommit) trip(k *lifecycle.Kind, b lifecycle.Brake) {
	d.addCommand()
	d.setBrake(k.Resource(), b)
	d.braked[k.Resource()] = d.commandIndex()
	d.tripped = append(d.tripped, Tripped{Kind: k, Brake: b})
}

func (d *OpenCommit) setBrake(resource string, b lifecycle.Brake) {
	if _, known := d.braked[resource]; !known {
		if d.braked == nil {
			d.braked = map[string]int{}
		}
		d.braked[resource] = d.commandIndex()
		d.tailBound += eventlog.BoundBrake(resource)
	}
	d.Tx.SetBrake(resource, b)
}

// released is an object whose deletion the command with an index has let through.
type released struct {
	object  uid.UID
	command int
}

// LetThrough records that the release of a brake lets the deletion of objects through. It
// returns false, and does nothing, if they do not fit into the commit.
func (d *OpenCommit) LetThrough(objects []uid.UID) bool {
	size := eventlog.BoundReleased(objects)
	if d.size()+size > d.limit {
		return false
	}
	d.addCommand()
	for _, u := range objects {
		d.released = append(d.released, released{u, d.commandIndex()})
	}
	d.tailBound += size
	d.Tx.LetThrough(objects)
	return true
}

// ReleaseBrake records the release of the brake of a kind. The brake stays tripped if more
// deletions are pending than were let through (more).
func (d *OpenCommit) ReleaseBrake(k *lifecycle.Kind, more bool) {
	b, _ := d.Tx.Brake(k)
	d.addCommand()
	if !more {
		b = b.Release()
	}
	d.setBrake(k.Resource(), b)
	d.braked[k.Resource()] = d.commandIndex()
	d.brakeReleased = true
}

// recordBrakes records the brakes that have changed and the released objects, behind the last event
// of the commit. A fold adds them after all events. Therefore only objects are recorded that
// are still released: a later command of the commit may have ended the release of an object, or
// created an object that could not be released before.
func (d *OpenCommit) recordBrakes() {
	still := slices.DeleteFunc(d.released, func(r released) bool { return !d.Tx.Released(r.object) })
	for len(still) > 0 {
		command, objects := still[0].command, []uid.UID(nil)
		for len(still) > 0 && still[0].command == command {
			objects, still = append(objects, still[0].object), still[1:]
		}
		d.b.Released(command, objects)
	}
	all := d.Tx.Brakes()
	for _, resource := range slices.Sorted(maps.Keys(d.braked)) {
		if b, ok := all[resource]; ok {
			d.b.Brake(d.braked[resource], resource, b)
		}
	}
}

// Tripped is a brake that a commit has tripped.
type Tripped struct {
	Kind  *lifecycle.Kind
	Brake lifecycle.Brake
}
