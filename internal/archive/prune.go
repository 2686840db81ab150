package archive

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// Pruning is what a retention deletes of a realm's entries, and what it keeps.
type Pruning struct {
	Realm     [16]byte
	Retention lifecycle.Retention
	// Delete are the entries that are deleted, in this order: the oldest first. A snapshot follows its
	// record.
	Delete []Entry
	// DeleteBytes, Kept and KeptBytes are the size of these, and the number and the size of the
	// others.
	DeleteBytes int64
	Kept        int
	KeptBytes   int64
	// Until is the last commit whose segment is deleted, 0 for none.
	Until uint64
	// Snapshot is the commit of the older of the two newest verified snapshots that are
	// undamaged, or of the only one, 0 for none. It and everything behind it are kept.
	Snapshot uint64
	// Needed reports whether the entries that are kept exceed the retention, because they are
	// needed: see Snapshot and PruneRule.Before.
	Needed bool
}

// PruneRule is what PlanPrune deletes and keeps.
type PruneRule struct {
	Retention lifecycle.Retention
	Now       time.Time
	// Check reads a snapshot.
	Check SnapshotCheck
	// Skipped is called with the name of each entry that does not count, because it is a damaged snapshot or the store cannot
	// read it, and why.
	Skipped func(name string, err error)
	// Before is the first commit for which nothing else than the archive may have the segment, 0
	// for none: segments with this commit or later ones are kept.
	Before uint64
}

// keptSnapshots is the number of verified snapshots that are always kept: if one becomes damaged after it was
// checked, the archive still has every commit from the other one on.
const keptSnapshots = 2

// unit are entries that are deleted together: a segment, or a snapshot with its record.
type unit struct {
	items []Item
	size  int64
}

func (u unit) last() uint64 { return u.items[0].Last }

// PlanPrune returns what a rule deletes of a realm's entries now. It deletes nothing. Entries are
// beyond the retention, the oldest first, while what is left has more bytes than the retention allows,
// or while the next entry is older than it allows: a segment is as old as its last commit, a snapshot
// as its verification. If anything is to be deleted, the two newest verified snapshots are read and compared
// with their records. One that is damaged, or the only one that the store cannot read, does not count, and the one
// before it is kept instead. Without an undamaged verified snapshot nothing is deleted.
func PlanPrune(ctx context.Context, store Store, realm [16]byte, rule PruneRule) (p Pruning, err error) {
	p = Pruning{Realm: realm, Retention: rule.Retention}
	units, verified, err := pruneUnits(ctx, store, realm)
	if err != nil {
		return p, err
	}
	passed := passing{skipped: rule.Skipped, keys: map[string]bool{}}
	for len(verified) > 0 {
		kept := verified[max(0, len(verified)-keptSnapshots):]
		n, needed, err := rule.beyond(ctx, store, units, kept[0].Last, &passed)
		if err != nil {
			return p, err
		}
		if n > 0 {
			undamaged, err := rule.undamaged(ctx, store, kept, &passed)
			if err != nil {
				return p, err
			}
			if len(undamaged) < len(kept) {
				verified = append(verified[:len(verified)-len(kept)], undamaged...)
				continue
			}
		}
		p.Snapshot, p.Needed = kept[0].Last, needed
		for i, u := range units {
			p.count(u, i < n)
		}
		return p, nil
	}
	if err := passed.Err(); err != nil {
		return p, err
	}
	total := int64(0)
	for _, u := range units {
		p.count(u, false)
		total += u.size
	}
	p.Needed = total > rule.Retention.MostBytes()
	return p, nil
}

func (p *Pruning) count(u unit, deleted bool) {
	if !deleted {
		p.Kept += len(u.items)
		p.KeptBytes += u.size
		return
	}
	p.DeleteBytes += u.size
	for _, i := range u.items {
		p.Delete = append(p.Delete, i.Entry)
		if i.Kind == Segment {
			p.Until = max(p.Until, i.Last)
		}
	}
}

// pruneUnits returns the entries of a realm in the order in which they are deleted, and its snapshots that have a
// record, in the order of their commits.
func pruneUnits(ctx context.Context, store Store, realm [16]byte) (units []unit, verified []Item, err error) {
	snapshots := map[uint64]*unit{}
	for e, err := range store.List(ctx, RealmPrefix(realm)) {
		if err != nil {
			return nil, nil, err
		}
		n, ok := ParseName(e.Name)
		if !ok || n.Kind == Pruned {
			continue
		}
		i := Item{Name: n, Entry: e}
		if n.Kind == Segment {
			units = append(units, unit{[]Item{i}, e.Size})
			continue
		}
		u := snapshots[n.Last]
		if u == nil {
			u = &unit{}
			snapshots[n.Last] = u
		}
		u.items = append(u.items, i)
		u.size += e.Size
		if len(u.items) == 2 { // the record is listed after its snapshot
			verified = append(verified, u.items[0])
			slices.Reverse(u.items)
		}
	}
	for _, u := range snapshots {
		units = append(units, *u)
	}
	slices.SortFunc(units, func(a, b unit) int {
		// A segment that ends with the commit of a snapshot is not needed for the state after it.
		return cmp.Or(cmp.Compare(a.last(), b.last()), cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.items[0].First, b.items[0].First))
	})
	slices.SortFunc(verified, func(a, b Item) int { return cmp.Compare(a.Last, b.Last) })
	return units, verified, nil
}

func (u unit) rank() int { return slices.Index(kinds, u.items[len(u.items)-1].Kind) }

// passing passes over entries that cannot be used.
type passing struct {
	Fallback
	skipped func(name string, err error)
	keys    map[string]bool // the names of those that were passed over, and of the snapshots of records
}

// over returns nil if an entry is passed over after an error, and otherwise the failure of the store.
func (p *passing) over(ctx context.Context, name string, err error) error {
	key := name
	if n, ok := ParseName(name); ok && n.Kind == Verified { // it is read for its age, and with its snapshot
		key = SnapshotName(n.Realm, n.Last).String()
	}
	if p.keys[key] || errors.Is(err, ErrNotFound) { // deleted meanwhile
		return nil
	}
	if err := p.From(ctx, err, IsDamaged(err)); err != nil {
		return err
	}
	p.keys[key] = true
	p.skipped(name, err)
	return nil
}

// beyond returns how many units are beyond the retention and precede a snapshot. needed reports whether the next
// one is beyond it too.
func (r PruneRule) beyond(ctx context.Context, store Store, units []unit, snapshot uint64, passed *passing) (n int, needed bool, err error) {
	size := int64(0) // of all but the first n
	for _, u := range units {
		size += u.size
	}
	for i, u := range units {
		is := size > r.Retention.MostBytes()
		if !is && r.Retention.Age > 0 {
			at, known, err := u.time(ctx, store)
			if err != nil {
				if err := passed.over(ctx, u.items[0].Entry.Name, err); err != nil {
					return 0, false, err
				}
			}
			if !known {
				continue // it goes with the next one
			}
			is = r.Now.Sub(at) > r.Retention.Age
		}
		if !is {
			return n, false, nil
		}
		if u.last() > snapshot || u.last() == snapshot && u.items[0].Kind != Segment || r.Before > 0 && u.last() >= r.Before {
			return n, true, nil
		}
		for ; n <= i; n++ {
			size -= units[n].size
		}
	}
	return n, false, nil
}

// time returns the time of the last commit of a segment, or of the verification of a snapshot. known is false
// if it cannot be read because of damage, or if there is none.
func (u unit) time(ctx context.Context, store Store) (at time.Time, known bool, err error) {
	i := u.items[0]
	switch i.Kind {
	case Segment:
		r, err := OpenSegment(ctx, store, i.Entry)
		if IsDamagedSegment(err) || errors.Is(err, ErrNotFound) {
			return at, false, nil
		}
		if err != nil {
			return at, false, fmt.Errorf("archive %s: segment %s: %w", store, i.Entry.Name, err)
		}
		return r.Info().Last.Time.Time(), true, nil
	case Verified:
		v, err := ReadVerification(ctx, store, i.Realm, i.Last)
		var bad *unusableError
		if errors.As(err, &bad) || errors.Is(err, ErrNotFound) {
			return at, false, nil
		}
		return v.At, err == nil, err
	}
	return at, false, nil
}

// unusableError says that an entry was read, and is damaged or of another version.
type unusableError struct{ error }

func (e *unusableError) Unwrap() error { return e.error }

// Damaged returns an error for which IsDamaged is true. Stores return it if a part of an entry is lost.
func Damaged(err error) error { return &unusableError{err} }

// IsDamaged reports whether an error of ReadVerification, or of a Store, says that the entry is damaged or of another
// version, and not that the store has failed.
func IsDamaged(err error) bool {
	var unusable *unusableError
	return errors.As(err, &unusable)
}

// undamaged returns those of some snapshots that can be read and are undamaged. The error is a failure of the store.
func (r PruneRule) undamaged(ctx context.Context, store Store, snapshots []Item, passed *passing) (undamaged []Item, err error) {
	for _, s := range snapshots {
		err := checkSnapshot(ctx, store, s, r.Check)
		if err == nil {
			undamaged = append(undamaged, s)
			continue
		}
		if err := passed.over(ctx, s.Entry.Name, err); err != nil {
			return nil, err
		}
	}
	return undamaged, nil
}

// checkSnapshot compares a snapshot with its record. The error is an unusableError unless the store
// has failed.
func checkSnapshot(ctx context.Context, store Store, snapshot Item, check SnapshotCheck) error {
	v, err := ReadVerification(ctx, store, snapshot.Realm, snapshot.Last)
	if err != nil {
		return err
	}
	in, err := store.Open(ctx, snapshot.Entry.Name, 0, snapshot.Entry.Size)
	if err != nil {
		return err
	}
	read := &counted{in: in, progress: func(int64) {}}
	hash, err := check(ctx, read, snapshot.Name)
	closed := in.Close()
	switch {
	case read.failed() || ctx.Err() != nil:
		return fmt.Errorf("archive %s: read %s: %w", store, snapshot.Entry.Name, err)
	case err != nil:
		return &unusableError{fmt.Errorf("archive %s: %s: %w", store, snapshot.Entry.Name, err)}
	case hash != v.Hash:
		return &unusableError{fmt.Errorf("archive %s: %s has content %x, and %x was verified", store, snapshot.Entry.Name, hash, v.Hash)}
	}
	return closed
}

// Do deletes the entries. It first records up to which commit segments are deleted, so that archivers do not
// archive them again. progress is called with each entry that was deleted, and stops Do with its error. After a
// failure, what is left is a complete archive that begins later; plan again to continue.
func (p Pruning) Do(ctx context.Context, store Store, now time.Time, progress func(Entry) error) error {
	if p.Until > 0 {
		if err := putPruned(ctx, store, p, now); err != nil {
			return err
		}
	}
	for _, e := range p.Delete {
		if err := store.Delete(ctx, e.Name); err != nil {
			return err
		}
		if err := progress(e); err != nil {
			return err
		}
	}
	return nil
}

// prunedJSON is the content of an entry of kind Pruned.
type prunedJSON struct {
	Format    uint32    `json:"format"`
	Until     uint64    `json:"until"`
	Retention string    `json:"retention"`
	At        time.Time `json:"at"`
}

func putPruned(ctx context.Context, store Store, p Pruning, now time.Time) error {
	before, err := items(ctx, store, p.Realm, Pruned)
	if err != nil {
		return err
	}
	b, err := json.Marshal(prunedJSON{Format: 1, Until: p.Until, Retention: p.Retention.String(), At: now.UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	b = append(b, '\n')
	name := Name{Realm: p.Realm, Kind: Pruned, First: p.Until, Last: p.Until}
	if err := store.Put(ctx, name.String(), bytes.NewReader(b), int64(len(b))); err != nil && !errors.Is(err, ErrExists) {
		return err
	}
	for _, i := range before {
		if i.Last < p.Until {
			if err := store.Delete(ctx, i.Entry.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// PrunedUntil returns the last commit of a realm whose segment was deleted by a retention, 0 for none.
func PrunedUntil(ctx context.Context, store Store, realm [16]byte) (sequence uint64, err error) {
	list, err := items(ctx, store, realm, Pruned)
	for _, i := range list {
		sequence = max(sequence, i.Last)
	}
	return sequence, err
}
