package archive

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/coppice-gc/coppice/internal/segment"
)

// RealmReport is what Verify has found of the entries of a realm.
type RealmReport struct {
	Realm    [16]byte
	Segments int
	// Snapshots is the number of snapshots, and Verified of those that have a record of their
	// verification.
	Snapshots, Verified int
	Size                int64 // of segments and snapshots, in bytes
	// First is the sequence of the first commit, 0 if no commit can be read.
	First uint64
	// Last is the last commit that can be read.
	Last segment.Point
	// Problems are what is wrong, in the order of the segments.
	Problems []Problem
}

// SnapshotCheck reads a snapshot to its end, and returns the hash of its content. The error says
// what is damaged, or that it is not the snapshot of the name. The package snapshot of the graph
// service implements it.
type SnapshotCheck func(ctx context.Context, in io.Reader, name Name) (hash [32]byte, err error)

// Verify reads all segments and snapshots of a list that Store.List has returned, and checks
// each by itself, that the segments of a realm continue each other without a gap, and that
// the records of verified snapshots are theirs. Overlapping segments must
// have the same commits. progress is called with the bytes that were read since its last
// call. What is wrong with the entries is in the reports, also that the store cannot read one; the error is a failure of
// the store at several entries in a row.
func Verify(ctx context.Context, store Store, entries []Entry, check SnapshotCheck, progress func(bytes int64)) (reports []RealmReport, err error) {
	var v *verifier
	var failed failures
	for _, e := range entries {
		name, ok := ParseName(e.Name)
		if !ok {
			continue
		}
		if name.Kind == Pruned {
			continue // only its name counts
		}
		if v == nil || v.report.Realm != name.Realm {
			reports = append(reports, RealmReport{Realm: name.Realm})
			v = newVerifier(name.Realm, entries)
		}
		err := v.entry(ctx, store, e, name, check, progress)
		if err == nil {
			failed.read()
		} else {
			problem, err := failed.at(ctx, e.Name, err)
			if err != nil {
				return reports, err
			}
			v.problem(*problem)
		}
		reports[len(reports)-1] = v.report
	}
	return reports, failed.end()
}

// verifier verifies the entries of one realm.
type verifier struct {
	report RealmReport
	hashes map[uint64][32]byte // of the undamaged snapshots, by sequence
	others map[uint64]Problem  // of the other snapshots
	// points are those at which segments begin and end: there, all segments with the
	// commit must agree. A zero value: no segment with the commit was read.
	points map[uint64]segment.Point
}

func newVerifier(realm [16]byte, entries []Entry) *verifier {
	v := &verifier{report: RealmReport{Realm: realm}, hashes: map[uint64][32]byte{}, others: map[uint64]Problem{}, points: map[uint64]segment.Point{}}
	for _, e := range entries {
		if n, ok := ParseName(e.Name); ok && n.Realm == realm && n.Kind == Segment {
			v.points[n.First-1], v.points[n.Last] = segment.Point{}, segment.Point{}
		}
	}
	return v
}

func (v *verifier) problem(p Problem) {
	v.report.Problems = append(v.report.Problems, p)
	if n, ok := ParseName(p.Name); ok && n.Kind == Snapshot {
		v.others[n.Last] = p
	}
}

// entry verifies an entry. The error is a failure of the store, or says that the entry cannot be opened.
func (v *verifier) entry(ctx context.Context, store Store, e Entry, name Name, check SnapshotCheck, progress func(int64)) error {
	switch name.Kind {
	case Segment:
		return v.segment(ctx, store, e, name, progress)
	case Snapshot:
		return v.snapshot(ctx, store, e, name, check, progress)
	case Verified:
		return v.verified(ctx, store, e, name)
	}
	return nil
}

// open opens an entry of a list.
func open(ctx context.Context, store Store, e Entry) (io.ReadCloser, error) {
	if e.Size <= 0 {
		return nil, errEmpty
	}
	return store.Open(ctx, e.Name, 0, e.Size)
}

// segment verifies a segment: see entry.
func (v *verifier) segment(ctx context.Context, store Store, e Entry, name Name, progress func(int64)) error {
	r := &v.report
	r.Segments++
	r.Size += e.Size
	if expected := r.Last.Sequence + 1; r.First > 0 && name.First > expected {
		v.problem(Problem{e.Name, ProblemMissing, &GapError{First: expected, Last: name.First - 1}})
	}
	in, err := open(ctx, store, e)
	if err != nil {
		return err
	}
	read := &counted{in: in, progress: progress}
	scanner := segment.NewScanner(read)
	var first *segment.Commit
	for c, err := range scanner.Commits() {
		if err != nil {
			if read.failed() || !IsDamagedSegment(err) {
				return errors.Join(fmt.Errorf("archive %s: read %s: %w", store, e.Name, err), in.Close())
			}
			v.problem(found(e.Name, err))
			break
		}
		if first == nil {
			first = &c
			// Its revision is not known: where a loss was accepted, revisions leap.
			v.agree(e.Name, segment.Point{Sequence: c.Sequence - 1, Checksum: c.Previous})
		}
		v.agree(e.Name, c.Point())
		if c.Sequence > r.Last.Sequence {
			r.Last = c.Point()
		}
	}
	if first != nil && r.First == 0 {
		r.First = first.Sequence
	}
	if info := scanner.Info(); info.Commits > 0 {
		if err := name.check(info); err != nil {
			v.problem(found(e.Name, err))
		}
	}
	return in.Close()
}

// snapshot verifies a snapshot.
func (v *verifier) snapshot(ctx context.Context, store Store, e Entry, name Name, check SnapshotCheck, progress func(int64)) error {
	r := &v.report
	r.Snapshots++
	r.Size += e.Size
	in, err := open(ctx, store, e)
	if err != nil {
		return err
	}
	read := &counted{in: in, progress: progress}
	hash, err := check(ctx, read, name)
	switch {
	case read.failed() || ctx.Err() != nil:
		return errors.Join(fmt.Errorf("archive %s: read %s: %w", store, e.Name, err), in.Close())
	case err != nil:
		v.problem(found(e.Name, err))
	default:
		v.hashes[name.Last] = hash
	}
	return in.Close()
}

// verified compares the record of a verification with its snapshot.
func (v *verifier) verified(ctx context.Context, store Store, e Entry, name Name) error {
	record, err := ReadVerification(ctx, store, name.Realm, name.Last)
	if err != nil {
		return err
	}
	hash, ok := v.hashes[name.Last]
	switch other, listed := v.others[name.Last]; {
	case !ok && listed:
		v.problem(Problem{e.Name, other.Kind, fmt.Errorf("its snapshot cannot be used: %w", other.Err)})
	case !ok:
		v.problem(Problem{e.Name, ProblemGone, errors.New("it is the record of a snapshot that the archive does not have")})
	case hash != record.Hash:
		v.problem(found(e.Name, fmt.Errorf("it names content %x, and the snapshot has %x", record.Hash, hash)))
	default:
		v.report.Verified++
	}
	return nil
}

// IsDamagedSegment reports whether an error is due to the content of a segment, or to a part of it that the store has lost.
func IsDamagedSegment(err error) bool {
	var d *segment.DamagedError
	var version *segment.VersionError
	return errors.As(err, &d) || errors.As(err, &version) || IsDamaged(err)
}

// agree compares a point with that of another segment. A revision of zero is not known.
func (v *verifier) agree(name string, p segment.Point) {
	known, compared := v.points[p.Sequence]
	same := known.Revision == p.Revision || known.Revision == 0 || p.Revision == 0
	switch {
	case !compared:
	case known == segment.Point{}, same && known.Revision == 0 && known.Checksum == p.Checksum:
		v.points[p.Sequence] = p
	case known.Checksum != p.Checksum || !same:
		v.problem(found(name, fmt.Errorf("commit %d has checksum %016x and revision %d, and in another segment %016x and %d: they are of different histories",
			p.Sequence, p.Checksum, p.Revision, known.Checksum, known.Revision)))
	}
}

// check returns an error unless the name is that of a segment.
func (n Name) check(info segment.Info) error {
	if is := (Name{Realm: info.RealmID, Kind: Segment, First: info.First.Sequence, Last: info.Last.Sequence}); is != n {
		return fmt.Errorf("its content is that of entry %s", is)
	}
	return nil
}

// failed reports whether the store has failed, other than that a part of the entry is lost.
func (c *counted) failed() bool { return c.err != nil && !IsDamaged(c.err) }

// counted reports how much is read.
type counted struct {
	in       io.Reader
	progress func(int64)
	err      error // of in, other than io.EOF
}

func (c *counted) Read(b []byte) (n int, err error) {
	n, err = c.in.Read(b)
	c.progress(int64(n))
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}
