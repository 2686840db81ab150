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

// Fallback decides whether the next one of several entries is tried when one cannot be read. Its zero value is
// ready.
type Fallback struct{ failed error }

// From returns nil if the next entry is to be tried after an error at one: if that is unusable, or if the store fails
// for it alone. If the store has failed before, From returns both errors.
func (f *Fallback) From(ctx context.Context, err error, unusable bool) error {
	if unusable {
		return nil
	}
	if f.failed != nil || ctx.Err() != nil {
		return errors.Join(f.failed, err)
	}
	f.failed = err
	return nil
}

// Err returns the error of the store after which the next entry was tried; nil for none. It is the reason if none could
// be read.
func (f *Fallback) Err() error { return f.failed }

// NewestVerified returns the last snapshot of a realm that was verified, with the record. Snapshots whose
// record is damaged, or the only one that the store cannot read, are left out. ok is false if there is none.
func NewestVerified(ctx context.Context, store Store, realm [16]byte) (snapshot Item, v Verification, ok bool, err error) {
	return VerifiedBefore(ctx, store, realm, ^uint64(0), func(string, error) {})
}

// VerifiedBefore is NewestVerified of the snapshots of commits before one. skipped is called with the name of each record
// that is left out, and why.
func VerifiedBefore(
	ctx context.Context, store Store, realm [16]byte, sequence uint64, skipped func(name string, err error),
) (snapshot Item, v Verification, ok bool, err error) {
	snapshots, verified, err := Snapshots(ctx, store, realm)
	if err != nil {
		return snapshot, v, false, err
	}
	var fallback Fallback
	for _, s := range slices.Backward(snapshots) {
		if !verified[s.Last] || s.Last >= sequence {
			continue
		}
		v, err := ReadVerification(ctx, store, realm, s.Last)
		if err == nil {
			return s, v, true, nil
		}
		if errors.Is(err, ErrNotFound) {
			continue // deleted meanwhile
		}
		if err := fallback.From(ctx, err, IsDamaged(err)); err != nil {
			return snapshot, Verification{}, false, err
		}
		skipped(VerifiedName(realm, s.Last).String(), err)
	}
	return snapshot, v, false, fallback.Err()
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
