package archive_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/archivetest"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/segment/segmenttest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
)

// hashed is a snapshot check for which any content but "damaged" is a snapshot.
func hashed(_ context.Context, in io.Reader, _ archive.Name) (hash [32]byte, err error) {
	b, err := io.ReadAll(in)
	if err == nil && strings.HasPrefix(string(b), "damaged") {
		err = errors.New("damaged")
	}
	return sha256.Sum256(b), err
}

func ignored(string, error) {}

// commitTime is when a commit of segmenttest was made.
func commitTime(sequence uint64) time.Time {
	return lifecycle.Time(1_700_000_000_000_000 + 1000*(sequence-1)).Time()
}

// putSnapshot puts a snapshot and, if it is verified, its record.
func putSnapshot(t *testing.T, s archive.Store, sequence uint64, content string, verified bool) {
	t.Helper()
	must.Succeed(t, s.Put(t.Context(), archive.SnapshotName(segmenttest.Realm, sequence).String(), strings.NewReader(content), int64(len(content))))
	if !verified {
		return
	}
	v := archive.Verification{Sequence: sequence, Hash: sha256.Sum256([]byte(content)), At: commitTime(sequence)}
	must.Succeed(t, archive.PutVerification(t.Context(), s, segmenttest.Realm, v))
}

// short names an entry by its kind and its last commit.
func short(entries []archive.Entry) (names []string) {
	for _, e := range entries {
		n, _ := archive.ParseName(e.Name)
		names = append(names, fmt.Sprintf("%s %d", n.Kind, n.Last))
	}
	return names
}

// pruned has segments of ten commits up to 60, and snapshots after 20 (not verified), 30, 40 and 50.
func pruned(t *testing.T) archive.Store {
	t.Helper()
	s := newStore(t)
	log := segmenttest.New(60)
	for first := 1; first < 60; first += 10 {
		put(t, s, log, first, first+9, nil)
	}
	putSnapshot(t, s, 20, "twenty", false)
	putSnapshot(t, s, 30, "thirty", true)
	putSnapshot(t, s, 40, "forty", true)
	putSnapshot(t, s, 50, "fifty", true)
	return s
}

// The oldest entries beyond the age are deleted, up to the last but one verified snapshot. What is
// deleted is recorded, and what is left is complete.
func TestPruneByAge(t *testing.T) {
	t.Parallel()
	oldest := []string{"segment 10", "segment 20", "snapshot 20", "segment 30", "verified 30", "snapshot 30", "segment 40"}
	for sequence, c := range map[uint64]struct {
		n      int
		until  uint64
		needed bool
	}{10: {0, 0, false}, 11: {1, 10, false}, 21: {2, 20, false}, 31: {6, 30, false}, 40: {6, 30, false}, 41: {7, 40, true}, 60: {7, 40, true}} {
		s := pruned(t)
		now := commitTime(sequence).Add(time.Hour)
		p, err := archive.PlanPrune(t.Context(), s, segmenttest.Realm, archive.PruneRule{Retention: lifecycle.Retention{Age: time.Hour}, Now: now, Check: hashed, Skipped: ignored})
		must.Succeed(t, err)
		if got := short(p.Delete); !slices.Equal(got, oldest[:c.n]) || p.Until != c.until || p.Needed != c.needed || p.Snapshot != 40 {
			t.Errorf("at commit %d: %v until %d, needed %t by snapshot %d; want %d entries, %+v", sequence, got, p.Until, p.Needed, p.Snapshot, c.n, c)
		}
		before := list(t, s)
		if p.DeleteBytes+p.KeptBytes != size(before) || len(p.Delete)+p.Kept != len(before) {
			t.Errorf("%+v of %d entries with %d bytes", p, len(before), size(before))
		}
		must.Succeed(t, p.Do(t.Context(), s, now, func(archive.Entry) error { return nil }))
		if until, err := archive.PrunedUntil(t.Context(), s, segmenttest.Realm); until != c.until || err != nil {
			t.Errorf("pruned until %d, %v", until, err)
		}
		reports, err := archive.Verify(t.Context(), s, list(t, s), hashed, func(int64) {})
		if err != nil || len(reports[0].Problems) > 0 || reports[0].Last.Sequence != 60 || reports[0].First != c.until+1 {
			t.Errorf("at commit %d: %+v, %v", sequence, reports, err)
		}
		if again, err := archive.PlanPrune(t.Context(), s, segmenttest.Realm, archive.PruneRule{Retention: lifecycle.Retention{Age: time.Hour}, Now: now, Check: hashed, Skipped: ignored}); err != nil || len(again.Delete) > 0 {
			t.Errorf("a second time: %+v, %v", again, err)
		}
	}
}

// The size is within the bound unless what is needed is larger, and no more is deleted than necessary.
func TestPruneByBytes(t *testing.T) {
	t.Parallel()
	total := size(list(t, pruned(t)))
	seed := nightly.Seed(t)
	draw := rand.New(rand.NewPCG(seed, 0))
	for range 30 {
		s := pruned(t)
		r := lifecycle.Retention{Bytes: 1 + draw.Int64N(total+10)}
		p, err := archive.PlanPrune(t.Context(), s, segmenttest.Realm, archive.PruneRule{Retention: r, Now: commitTime(50), Check: hashed, Skipped: ignored})
		must.Succeed(t, err)
		if p.KeptBytes > r.Bytes != p.Needed || p.Needed && p.Until != 40 {
			t.Errorf("seed %d: %+v keeps %d bytes, until %d, needed %t", seed, r, p.KeptBytes, p.Until, p.Needed)
		}
		if p.KeptBytes+lastDeleted(t, p.Delete)+200 < r.Bytes {
			t.Errorf("seed %d: %+v keeps %d bytes, and has deleted %v", seed, r, p.KeptBytes, short(p.Delete))
		}
	}
}

// lastDeleted returns the size of the entries that are deleted with the last one: those of the
// same commit. It returns the largest number if there is none.
func lastDeleted(t *testing.T, entries []archive.Entry) (bytes int64) {
	t.Helper()
	if len(entries) == 0 {
		return math.MaxInt64 / 2
	}
	commit := func(e archive.Entry) uint64 {
		n, ok := archive.ParseName(e.Name)
		if !ok {
			t.Fatal(e.Name)
		}
		return n.Last
	}
	for _, e := range entries {
		if commit(e) == commit(entries[len(entries)-1]) {
			bytes += e.Size
		}
	}
	return bytes
}

// Without a verified snapshot that is undamaged nothing is deleted. If the newest is damaged, the one
// before and what follows it are kept.
func TestPruneKeepsWhatIsNeeded(t *testing.T) {
	t.Parallel()
	all := lifecycle.Retention{Bytes: 1}
	s := newStore(t)
	log := segmenttest.New(20)
	put(t, s, log, 1, 10, nil)
	put(t, s, log, 11, 20, nil)
	putSnapshot(t, s, 20, "twenty", false)
	p, err := archive.PlanPrune(t.Context(), s, segmenttest.Realm, archive.PruneRule{Retention: all, Now: commitTime(99), Check: hashed, Skipped: ignored})
	if err != nil || len(p.Delete) > 0 || p.Snapshot != 0 || !p.Needed || p.Kept != 3 {
		t.Errorf("without a verified snapshot: %+v, %v", p, err)
	}
	for _, damaged := range []uint64{40, 50} {
		s = pruned(t)
		name, content := archive.SnapshotName(segmenttest.Realm, damaged).String(), "damaged"
		must.Succeed(t, errors.Join(s.Delete(t.Context(), name), s.Put(t.Context(), name, strings.NewReader(content), int64(len(content)))))
		p, err = archive.PlanPrune(t.Context(), s, segmenttest.Realm, archive.PruneRule{Retention: all, Now: commitTime(99), Check: hashed, Skipped: ignored})
		if err != nil || p.Snapshot != 30 || p.Until != 30 || !slices.Equal(short(p.Delete), []string{"segment 10", "segment 20", "snapshot 20", "segment 30"}) {
			t.Errorf("with snapshot %d damaged: %+v, %v", damaged, short(p.Delete), err)
		}
	}
	p, err = archive.PlanPrune(t.Context(), pruned(t), segmenttest.Realm, archive.PruneRule{Retention: all, Now: commitTime(99), Check: hashed, Skipped: ignored, Before: 15})
	if err != nil || p.Until != 10 || !p.Needed || !slices.Equal(short(p.Delete), []string{"segment 10"}) {
		t.Errorf("if the log lacks commit 15: %+v, %v", short(p.Delete), err)
	}
	if p, err := archive.PlanPrune(t.Context(), pruned(t), segmenttest.Realm, archive.PruneRule{Retention: lifecycle.Retention{}, Now: commitTime(99), Check: hashed, Skipped: ignored}); err != nil || len(p.Delete) > 0 || p.Needed {
		t.Errorf("a retention of all deletes %v, %v", short(p.Delete), err)
	}
}

// A pruning that was interrupted after any entry leaves an archive without a gap.
func TestPruneInterrupted(t *testing.T) {
	t.Parallel()
	interrupted := errors.New("interrupted")
	for after := range 7 {
		s := pruned(t)
		p, err := archive.PlanPrune(t.Context(), s, segmenttest.Realm, archive.PruneRule{Retention: lifecycle.Retention{Bytes: 1}, Now: commitTime(99), Check: hashed, Skipped: ignored})
		must.Succeed(t, err)
		deletes := after
		store := &archivetest.Hooked{Store: s, Before: func(_ context.Context, c archivetest.Call) error {
			if c.Op == archivetest.Delete {
				if deletes--; deletes < 0 {
					return interrupted
				}
			}
			return nil
		}}
		if err := p.Do(t.Context(), store, commitTime(99), func(archive.Entry) error { return nil }); !errors.Is(err, interrupted) {
			t.Fatal(err)
		}
		reports, err := archive.Verify(t.Context(), s, list(t, s), hashed, func(int64) {})
		if err != nil || len(reports[0].Problems) > 0 || reports[0].Last.Sequence != 60 {
			t.Errorf("after %d entries: %+v, %v", after, reports, err)
		}
	}
}

// failing returns a store that fails to read some entries.
func failing(s archive.Store, err error, unreadable func(archive.Name) bool) archive.Store {
	return &archivetest.Hooked{Store: s, Before: func(_ context.Context, c archivetest.Call) error {
		if c.Op == archivetest.Open && unreadable(c.Entry) {
			return err
		}
		return nil
	}}
}

// A store that fails while a record is read is no damage of the record.
func TestVerifyStoreFails(t *testing.T) {
	t.Parallel()
	s := pruned(t)
	down := errors.New("the store is down")
	records := func(n archive.Name) bool { return n.Kind == archive.Verified }
	reports, err := archive.Verify(t.Context(), failing(s, down, records), list(t, s), hashed, func(int64) {})
	if err != nil || len(reports[0].Problems) != 3 {
		t.Fatalf("%+v, %v", reports, err)
	}
	for _, p := range reports[0].Problems {
		if p.Kind != archive.ProblemUnread || !errors.Is(p.Err, down) {
			t.Errorf("%+v", p)
		}
	}
}

// A verified snapshot that the store cannot read does not count, and the one before it is kept. If the store cannot read
// two, it is perhaps not of these alone, and nothing is planned.
func TestPruneUnreadableSnapshot(t *testing.T) {
	t.Parallel()
	s := pruned(t)
	down := errors.New("input/output error")
	plan := func(unreadable ...uint64) (p archive.Pruning, skipped []string, err error) {
		store := failing(s, down, func(n archive.Name) bool {
			return n.Kind == archive.Snapshot && slices.Contains(unreadable, n.Last)
		})
		p, err = archive.PlanPrune(t.Context(), store, segmenttest.Realm, archive.PruneRule{
			Retention: lifecycle.Retention{Bytes: 1}, Now: commitTime(99), Check: hashed,
			Skipped: func(name string, err error) {
				if !errors.Is(err, down) {
					t.Errorf("%s is skipped because of %v", name, err)
				}
				skipped = append(skipped, name)
			},
		})
		return p, skipped, err
	}
	p, skipped, err := plan()
	if err != nil || p.Snapshot != 40 || len(skipped) > 0 {
		t.Fatalf("a store that can be read keeps the snapshot of commit %d, skips %q, %v", p.Snapshot, skipped, err)
	}
	p, skipped, err = plan(50)
	if err != nil || p.Snapshot != 30 || !slices.Equal(skipped, []string{archive.SnapshotName(segmenttest.Realm, 50).String()}) {
		t.Errorf("the snapshot of commit %d is kept, %q are skipped, %v", p.Snapshot, skipped, err)
	}
	if p, _, err = plan(40, 50); !errors.Is(err, down) || len(p.Delete) > 0 {
		t.Errorf("%d entries are to be deleted, %v", len(p.Delete), err)
	}
}

// A record that the store cannot read is one entry, although it is read for the age of its snapshot and with it.
func TestPruneUnreadableRecord(t *testing.T) {
	t.Parallel()
	down := errors.New("input/output error")
	for _, record := range []uint64{30, 40, 50} {
		s := pruned(t)
		store := failing(s, down, func(n archive.Name) bool { return n.Kind == archive.Verified && n.Last == record })
		var skipped []string
		_, err := archive.PlanPrune(t.Context(), store, segmenttest.Realm, archive.PruneRule{
			Retention: lifecycle.Retention{Age: time.Hour}, Now: commitTime(99).Add(time.Hour), Check: hashed,
			Skipped: func(name string, _ error) { skipped = append(skipped, name) },
		})
		if err != nil || len(skipped) != 1 {
			t.Errorf("the record of commit %d cannot be read: %q are skipped, %v", record, skipped, err)
		}
	}
}

// A segment that the store cannot read has no age, and is deleted with the next one. That is also so if a snapshot that is to be
// kept is damaged.
func TestPruneUnreadableSegment(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"fifty", "damaged"} {
		s := newStore(t)
		log := segmenttest.New(60)
		for first := 1; first < 60; first += 10 {
			put(t, s, log, first, first+9, nil)
		}
		for _, sequence := range []uint64{30, 40} {
			putSnapshot(t, s, sequence, "a snapshot", true)
		}
		putSnapshot(t, s, 50, content, true)
		oldest := archive.Name{Realm: segmenttest.Realm, Kind: archive.Segment, First: 1, Last: 10}
		down := errors.New("input/output error")
		var skipped []string
		p, err := archive.PlanPrune(t.Context(), failing(s, down, func(n archive.Name) bool { return n == oldest }), segmenttest.Realm, archive.PruneRule{
			Retention: lifecycle.Retention{Age: time.Hour}, Now: commitTime(20).Add(time.Hour + 1), Check: hashed,
			Skipped: func(name string, _ error) { skipped = append(skipped, name) },
		})
		if err != nil || !slices.Equal(short(p.Delete), []string{"segment 10", "segment 20"}) || skipped[0] != oldest.String() {
			t.Errorf("%s: %v are to be deleted, %v are skipped, %v", content, short(p.Delete), skipped, err)
		}
	}
}

// lossy is a store that has lost the end of each segment and snapshot.
type lossy struct{ archive.Store }

func (l lossy) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	in, err := l.Store.Open(ctx, name, offset, length)
	if n, _ := archive.ParseName(name); err != nil || n.Kind == archive.Verified {
		return in, err
	}
	lost := iotest.ErrReader(archive.Damaged(errors.New("a chunk is missing")))
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(in, length-1), lost), in}, nil
}

// A store that has lost a part of an entry does not hide what is wrong with the others.
func TestVerifyLostPart(t *testing.T) {
	t.Parallel()
	s := pruned(t)
	read := func(in archive.Store) archive.RealmReport {
		reports, err := archive.Verify(t.Context(), in, list(t, s), hashed, func(int64) {})
		if err != nil || len(reports) != 1 {
			t.Fatalf("%+v, %v", reports, err)
		}
		return reports[0]
	}
	if r := read(s); len(r.Problems) > 0 {
		t.Fatalf("%+v", r)
	}
	// Six segments, four snapshots, and then the three records of these.
	if r := read(lossy{s}); len(r.Problems) < 13 || r.Segments != 6 || r.Snapshots != 4 || r.Verified != 0 {
		t.Errorf("%+v", r)
	}
}

// A snapshot whose record is damaged is left out, and the one before it is the newest.
func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	s := pruned(t)
	newest := func() uint64 {
		_, v, ok, err := archive.NewestVerified(t.Context(), s, segmenttest.Realm)
		if err != nil || !ok {
			t.Fatalf("%t, %v", ok, err)
		}
		return v.Sequence
	}
	if got := newest(); got != 50 {
		t.Fatalf("the newest is that of commit %d", got)
	}
	name := archive.VerifiedName(segmenttest.Realm, 50).String()
	must.Succeed(t, errors.Join(s.Delete(t.Context(), name), s.Put(t.Context(), name, strings.NewReader("{}\nx"), 4)))
	if got := newest(); got != 40 {
		t.Errorf("the newest is that of commit %d", got)
	}
}
