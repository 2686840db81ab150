package archive

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Kind is what an entry contains.
type Kind string

// Segment is the kind of segments of the log: package segment.
const Segment Kind = "segment"

// Name is what the name of an entry says. The names of the entries of a realm and a kind
// are in the order of their first sequences:
//
//	<realm id, 32 hexadecimal digits>/segment/<first>-<last>
//
// The sequences are those of commits, with 20 digits.
type Name struct {
	Realm       [16]byte
	Kind        Kind
	First, Last uint64
}

// String returns the name of the entry.
func (n Name) String() string {
	return fmt.Sprintf("%s%020d-%020d", Prefix(n.Realm, n.Kind), n.First, n.Last)
}

// Prefix returns the prefix of the names of all entries of a realm and a kind.
func Prefix(realm [16]byte, kind Kind) string { return RealmPrefix(realm) + string(kind) + "/" }

// RealmPrefix returns the prefix of the names of all entries of a realm.
func RealmPrefix(realm [16]byte) string { return hex.EncodeToString(realm[:]) + "/" }

// ParseName parses the name of an entry. It reports false for every other name: an archive
// may have entries of later versions.
func ParseName(name string) (n Name, ok bool) {
	realm, rest, _ := strings.Cut(name, "/")
	kind, sequences, _ := strings.Cut(rest, "/")
	first, last, _ := strings.Cut(sequences, "-")
	id, err := hex.DecodeString(realm)
	if err != nil || len(id) != len(n.Realm) || Kind(kind) != Segment {
		return n, false
	}
	n.Realm, n.Kind = [16]byte(id), Segment
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
