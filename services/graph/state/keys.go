package state

import (
	"encoding/binary"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// The tables. A key is the table's byte followed by the parts that are listed here. No
// other file spells keys. Uids are packed, which makes them self-delimiting. Numbers are
// big-endian, so that keys sort by them. Other parts end with NUL, which no name may
// contain.
const (
	tableAbsent    = 'a'
	tableBody      = 'b'
	tableBrake     = 'd'
	tableClaim     = 'c'
	tableEdge      = 'e'
	tableRealm     = 'g'
	tableIndex     = 'i'
	tableKind      = 'k'
	tableReleased  = 'l'
	tableMeta      = 'm'
	tableName      = 'n'
	tableNode      = 'o'
	tableNotice    = 'v'
	tablePositions = 'p'
	tableProtected = 'q'
	tableCommands  = 'r'
	tableSession   = 's'
	tableRemoved   = 't'
	tableWork      = 'w'
	tableExpiry    = 'x'
)

var (
	keyCheckpoint = []byte{tableMeta, 'c'}
	keySchema     = []byte{tableMeta, 's'}

	keyOrigin = []byte{tableRealm, 'o'}
	keyPaused = []byte{tableRealm, 'p'}
	keyPauses = []byte{tableRealm, 't'}

	// keyReleases is the key of the number of rows in tableReleased.
	keyReleases = []byte{tableRealm, 'l'}
	// keyNotices is the key of the number of rows in tableNotice.
	keyNotices = []byte{tableRealm, 'n'}
)

// schema is the version of this layout. A state of a later layout is refused. One of an
// earlier layout that readable does not accept is deleted and rebuilt from the log.
const schema = 9

// readable reports whether the rows of a layout are rows of this one. Layout 6 has no
// rows of uses, layout 7 none of kinds and brakes, and layout 8 none of notices; the rows of kinds
// are added when a state or a snapshot of layout 6 or 7 is read.
func readable(version uint32) bool { return OldestSchema <= version && version <= schema }

// Schema is the version of the layout of keys and values, and OldestSchema the first one that is read, for messages.
const (
	Schema       = schema
	OldestSchema = 6
)

const nul = 0

func keyOfUID(table byte, u uid.UID) []byte {
	return append(append(make([]byte, 0, 1+len(u)), table), u...)
}

func appendUIDKey(b []byte, table byte, u uid.UID) []byte {
	return append(append(b, table), u...)
}

func nameKey(b []byte, resource, namespace, name string) []byte {
	b = append(b, tableName)
	b = append(append(b, resource...), nul)
	b = append(append(b, namespace...), nul)
	return append(b, name...)
}

// namePrefix returns the prefix of all names of a resource, in one namespace unless that is
// empty.
func namePrefix(resource, namespace string) []byte {
	b := append(append([]byte{tableName}, resource...), nul)
	if namespace != "" {
		b = append(append(b, namespace...), nul)
	}
	return b
}

// protectedKey is nameKey for the table of protected objects.
func protectedKey(b []byte, resource, namespace, name string) []byte {
	b = nameKey(b, resource, namespace, name)
	b[0] = tableProtected
	return b
}

// protectedPrefix is namePrefix for the table of protected objects.
func protectedPrefix(resource, namespace string) []byte {
	b := namePrefix(resource, namespace)
	b[0] = tableProtected
	return b
}

// expiryKey appends the key of an object that expires to b. Its time is not negative.
func expiryKey(b []byte, at lifecycle.Time, u uid.UID) []byte {
	return append(binary.BigEndian.AppendUint64(append(b, tableExpiry), uint64(at)), u...)
}

// splitExpiryKey returns the parts of a key of expiryKey.
func splitExpiryKey(key []byte) (at lifecycle.Time, u uid.UID) {
	return lifecycle.Time(binary.BigEndian.Uint64(key[1:])), uid.UID(key[9:])
}

// splitNameKey returns the parts of a key of nameKey or protectedKey.
func splitNameKey(key []byte) (resource, namespace, name string) {
	resource, rest, _ := strings.Cut(string(key[1:]), "\x00")
	namespace, name, _ = strings.Cut(rest, "\x00")
	return resource, namespace, name
}

// claimHash returns the hash of a claim that the keys of edges have. If two claims
// collided, a scan of edges would find the dependents of both. The node of a dependent has
// its claims, and the counters have the number of dependents for each claim.
func claimHash(c lifecycle.Coordinates) uint64 {
	var room [256]byte
	return xxhash.Sum64(appendClaim(room[:0], c))
}

func appendClaim(b []byte, c lifecycle.Coordinates) []byte {
	b = append(append(b, c.Group...), nul)
	b = append(append(b, c.Kind...), nul)
	b = append(append(b, c.Name...), nul)
	return append(b, c.Namespace...)
}

func splitClaim(b []byte) lifecycle.Coordinates {
	var c lifecycle.Coordinates
	rest := string(b)
	c.Group, rest, _ = strings.Cut(rest, "\x00")
	c.Kind, rest, _ = strings.Cut(rest, "\x00")
	c.Name, c.Namespace, _ = strings.Cut(rest, "\x00")
	return c
}

// claimKey appends the key of a counter to b. The key of the sum over all claims on the
// owner has no claim.
func claimKey(b []byte, owner uid.UID, c lifecycle.Coordinates) []byte {
	b = appendUIDKey(b, tableClaim, owner)
	if c == (lifecycle.Coordinates{}) {
		return b
	}
	return appendClaim(append(b, 1), c)
}

// claimPrefix returns the prefix of the counters of all claims on the owner, in any
// namespace, with the same group, kind and name; for the zero Coordinates, of all claims.
func claimPrefix(owner uid.UID, c lifecycle.Coordinates) []byte {
	b := append(keyOfUID(tableClaim, owner), 1)
	if c == (lifecycle.Coordinates{}) {
		return b
	}
	c.Namespace = ""
	return appendClaim(b, c)
}

func edgeKey(b []byte, owner uid.UID, claim uint64, dependent uid.UID) []byte {
	b = appendUIDKey(b, tableEdge, owner)
	b = binary.BigEndian.AppendUint64(b, claim)
	return append(b, dependent...)
}

// edgePrefix returns the prefix of an owner's edges.
func edgePrefix(owner uid.UID) []byte { return keyOfUID(tableEdge, owner) }

// splitEdgeKey returns claim and dependent of an edge of the owner.
func splitEdgeKey(key []byte, owner uid.UID) (claim uint64, dependent uid.UID) {
	rest := key[1+len(owner):]
	return binary.BigEndian.Uint64(rest), uid.UID(rest[8:])
}

// The tables of edges and claims also have the users of objects, under keys that are no packed
// uids (see package uid) but are self-delimiting, too: the prefix users and the uid of the used
// object; unresolved for uses without a uid; anyUse for the number of all uses.
const (
	users      = "\x03"
	unresolved = uid.UID("\x04")
	anyUse     = uid.UID("\x05")
)

// usersOf returns the key of the users of an object.
func usersOf(used uid.UID) uid.UID { return users + used }

// usedBy returns the uid of the object to which a key in the tables of edges and claims belongs:
// the used object for a key of usersOf, otherwise the key itself. ok is false for unresolved and
// anyUse, which belong to no object.
func usedBy(key uid.UID) (used uid.UID, ok bool) {
	return uid.UID(strings.TrimPrefix(string(key), users)), key != unresolved && key != anyUse
}

func numberKey(table byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{table}, n)
}

func numberOfKey(key []byte) uint64 { return binary.BigEndian.Uint64(key[1:]) }

// commandKey appends the key of a command in a span of time to b: see commandSpan.
func commandKey(b []byte, span uint32, k CommandKey) []byte {
	return append(append(commandSpanKey(b, span), k.ID[:]...), k.Actor...)
}

// commandSpanKey appends a key to b that sorts before the keys of all commands in a span,
// and after those in earlier spans.
func commandSpanKey(b []byte, span uint32) []byte {
	return binary.BigEndian.AppendUint32(append(b, tableCommands), span)
}

// splitCommandKey returns the parts of a key of commandKey.
func splitCommandKey(key []byte) (span uint32, k CommandKey, ok bool) {
	const id = 1 + 4
	if len(key) < id+len(k.ID) {
		return 0, k, false
	}
	k.ID, k.Actor = CommandID(key[id:]), string(key[id+len(k.ID):])
	return binary.BigEndian.Uint32(key[1:]), k, true
}

// resourceKey returns the key of a row about a kind.
func resourceKey(table byte, resource string) []byte {
	return append([]byte{table}, resource...)
}

func sessionKey(id string) []byte { return append([]byte{tableSession}, id...) }

// prefixEnd returns the first key after all keys with the prefix.
func prefixEnd(prefix []byte) []byte { return appendPrefixEnd(nil, prefix) }

// appendPrefixEnd appends prefixEnd(prefix) to b, which must be empty.
func appendPrefixEnd(b, prefix []byte) []byte {
	b = append(b, prefix...)
	for i := len(b) - 1; i >= 0; i-- {
		b[i]++
		if b[i] != 0 {
			return b[:i+1]
		}
	}
	return nil
}
