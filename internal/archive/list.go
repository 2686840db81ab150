package archive

import (
	"context"
	"errors"
	"slices"
)

// Item is an entry with its parsed name.
type Item struct {
	Name
	Entry Entry
}

// Segments returns the segments of a realm, in the order of their first commits. They may
// overlap: see Chain.
func Segments(ctx context.Context, store Store, realm [16]byte) ([]Item, error) {
	return items(ctx, store, realm, Segment)
}

// Size returns the size of all entries of a realm in bytes, and their number.
func Size(ctx context.Context, store Store, realm [16]byte) (bytes int64, entries int, err error) {
	for e, err := range store.List(ctx, RealmPrefix(realm)) {
		if err != nil {
			return 0, 0, err
		}
		bytes, entries = bytes+e.Size, entries+1
	}
	return bytes, entries, nil
}

// Snapshots returns the snapshots of a realm, in the order of their commits. verified has the
// sequences of those with a record of verification: see ReadVerification.
func Snapshots(ctx context.Context, store Store, realm [16]byte) (snapshots []Item, verified map[uint64]bool, err error) {
	if snapshots, err = items(ctx, store, realm, Snapshot); err != nil {
		return nil, nil, err
	}
	records, err := items(ctx, store, realm, Verified)
	if err != nil {
		return nil, nil, err
	}
	verified = map[uint64]bool{}
	for _, r := range records {
		verified[r.Last] = true
	}
	return snapshots, verified, nil
}

// NewestVerified returns the last snapshot of a realm that was verified, with the record. Snapshots whose
// record is damaged are left out. ok is false if there is none.
func NewestVerified(ctx context.Context, store Store, realm [16]byte) (snapshot Item, v Verification, ok bool, err error) {
	return VerifiedBefore(ctx, store, realm, ^uint64(0))
}

// VerifiedBefore is NewestVerified of the snapshots of commits before one.
func VerifiedBefore(ctx context.Context, store Store, realm [16]byte, sequence uint64) (snapshot Item, v Verification, ok bool, err error) {
	snapshots, verified, err := Snapshots(ctx, store, realm)
	if err != nil {
		return snapshot, v, false, err
	}
	for _, s := range slices.Backward(snapshots) {
		if !verified[s.Last] || s.Last >= sequence {
			continue
		}
		v, err := ReadVerification(ctx, store, realm, s.Last)
		if IsDamaged(err) || errors.Is(err, ErrNotFound) { // or deleted meanwhile
			continue
		}
		return s, v, err == nil, err
	}
	return snapshot, v, false, nil
}

func items(ctx context.Context, store Store, realm [16]byte, kind Kind) (list []Item, err error) {
	for e, err := range store.List(ctx, Prefix(realm, kind)) {
		if err != nil {
			return nil, err
		}
		if n, ok := ParseName(e.Name); ok {
			list = append(list, Item{Name: n, Entry: e})
		}
	}
	return list, nil
}

// Chain returns those of the segments, which must be sorted, that have the commits from a
// sequence on without a gap, as few as possible. It returns none if no segment has that commit.
func Chain(segments []Item, from uint64) (chain []Item) {
	for at := 0; ; {
		best := -1
		for ; at < len(segments) && segments[at].First <= from; at++ {
			if segments[at].Last >= from && (best < 0 || segments[at].Last > segments[best].Last) {
				best = at
			}
		}
		if best < 0 {
			return chain
		}
		chain = append(chain, segments[best])
		from, at = segments[best].Last+1, best+1
	}
}
