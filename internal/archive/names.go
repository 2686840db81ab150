package archive

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Kind is what an entry contains.
type Kind string

// The kinds of entries. The names of an archive's entries are ordered so that the segments of a
// realm precede its snapshots, and these the records of their verification.
const (
	// Segment is the kind of segments of the log: package segment.
	Segment Kind = "segment"
	// Snapshot is the kind of snapshots of the state after a commit: package snapshot of
	// the graph service.
	Snapshot Kind = "snapshot"
	// Verified is the kind of records that a snapshot was verified: Verification.
	Verified Kind = "verified"
	// Pruned is the kind of records that commits were deleted because of a retention: Pruning.
	Pruned Kind = "pruned"
)

// kinds has all kinds, in the order of their names.
var kinds = []Kind{Pruned, Segment, Snapshot, Verified}

// Name is what the name of an entry says. The names of the entries of a realm and a kind
// are in the order of their first sequences:
//
//	<realm id, 32 hexadecimal digits>/pruned/<sequence>
//	<realm id>/segment/<first>-<last>
//	<realm id>/snapshot/<sequence>
//	<realm id>/verified/<sequence>
//
// The sequences are those of commits, with 20 digits.
type Name struct {
	Realm [16]byte
	Kind  Kind
	// First and Last are the sequences of a segment's first and last commit. Both are the
	// sequence of the commit of a snapshot, or of the last commit that was pruned.
	First, Last uint64
}

// SnapshotName returns the name of a snapshot of a realm after a commit.
func SnapshotName(realm [16]byte, sequence uint64) Name {
	return Name{Realm: realm, Kind: Snapshot, First: sequence, Last: sequence}
}

// VerifiedName returns the name of the record that a snapshot was verified.
func VerifiedName(realm [16]byte, sequence uint64) Name {
	return Name{Realm: realm, Kind: Verified, First: sequence, Last: sequence}
}

// String returns the name of the entry.
func (n Name) String() string {
	if n.Kind == Segment {
		return fmt.Sprintf("%s%020d-%020d", Prefix(n.Realm, n.Kind), n.First, n.Last)
	}
	return fmt.Sprintf("%s%020d", Prefix(n.Realm, n.Kind), n.First)
}

// Prefix returns the prefix of the names of all entries of a realm and a kind.
func Prefix(realm [16]byte, kind Kind) string { return RealmPrefix(realm) + string(kind) + "/" }

// RealmPrefix returns the prefix of the names of all entries of a realm.
func RealmPrefix(realm [16]byte) string { return hex.EncodeToString(realm[:]) + "/" }

// IsOfRealm reports whether a name is that of an entry of a realm, also of a kind of a later version. Other files may be in
// the directory or bucket of an archive.
func IsOfRealm(name string) bool {
	realm, _, ok := strings.Cut(name, "/")
	id, err := hex.DecodeString(realm)
	return ok && err == nil && len(id) == len(Name{}.Realm) && realm == strings.ToLower(realm)
}

// ParseName parses the name of an entry. It reports false for every other name: an archive
// may have entries of later versions.
func ParseName(name string) (n Name, ok bool) {
	realm, rest, _ := strings.Cut(name, "/")
	kind, sequences, _ := strings.Cut(rest, "/")
	first, last, ranged := strings.Cut(sequences, "-")
	if !ranged {
		last = first
	}
	id, err := hex.DecodeString(realm)
	if err != nil || len(id) != len(n.Realm) || !slices.Contains(kinds, Kind(kind)) {
		return n, false
	}
	n.Realm, n.Kind = [16]byte(id), Kind(kind)
	for _, s := range []struct {
		text string
		to   *uint64
	}{{first, &n.First}, {last, &n.Last}} {
		if *s.to, err = strconv.ParseUint(s.text, 10, 64); err != nil {
			return n, false
		}
	}
	return n, n.First > 0 && n.First <= n.Last && n.String() == name
}
