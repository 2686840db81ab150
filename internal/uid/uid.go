// Package uid packs the uid of an object into the form that is logged, stored and
// compared.
//
// To clients a uid is text. The server generates UUIDs; import keeps the uid that an
// object has, which may be other text. Packed, a UUID in its canonical spelling takes 17
// bytes instead of 36, sorts by time if it is a UUIDv7, and is self-delimiting, so that
// uids can follow one another in a column or in a key:
//
//	0x01 | 16 bytes             a UUID in canonical spelling
//	0x02 | length | text        anything else, at most MaxLength bytes
//
// The two forms never denote the same uid: only text that does not parse as a
// canonical UUID is stored as text.
package uid

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"

	"github.com/google/uuid"
)

// MaxLength is the length of the longest uid, in bytes of text.
const MaxLength = 128

const (
	tagUUID = 0x01
	tagText = 0x02

	// PackedUUID is the packed length of a UUID.
	PackedUUID = 1 + 16
)

// UID is a packed uid. The zero value is no uid. UIDs can be compared with == and be keys
// of a map. They are strings, and so immutable and safe to share.
type UID string

// New returns a new UUIDv7.
func New() UID {
	u := uuid.Must(uuid.NewV7())
	return FromUUID(u)
}

// FromUUID packs a UUID.
func FromUUID(u uuid.UUID) UID {
	var b [PackedUUID]byte
	b[0] = tagUUID
	copy(b[1:], u[:])
	return UID(b[:])
}

// Parse packs the text of a uid. Text has 1 to MaxLength bytes of
// [A-Za-z0-9-], so that it can be a token of a NATS subject.
func Parse(text string) (UID, error) {
	if u, ok := parseCanonical(text); ok {
		return FromUUID(u), nil
	}
	switch {
	case text == "":
		return "", errors.New("a uid must not be empty")
	case len(text) > MaxLength:
		return "", fmt.Errorf("a uid has at most %d characters, this one has %d", MaxLength, len(text))
	}
	for i := range len(text) {
		if c := text[i]; !isAlnum(c) && c != '-' {
			return "", fmt.Errorf("a uid consists of letters, digits and hyphens; %q has %q", text, c)
		}
	}
	b := make([]byte, 0, 2+len(text))
	b = append(b, tagText, byte(len(text)))
	return UID(append(b, text...)), nil
}

// MustParse is Parse for text that is known to be a uid.
func MustParse(text string) UID {
	u, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return u
}

// UUID reports whether u is a UUID in canonical spelling.
func (u UID) UUID() bool { return len(u) == PackedUUID && u[0] == tagUUID }

// String returns the text that Parse packed.
func (u UID) String() string {
	if u.UUID() {
		var dst [36]byte
		encodeCanonical(&dst, string(u[1:]))
		return string(dst[:])
	}
	if len(u) > 2 && u[0] == tagText {
		return string(u[2:])
	}
	return ""
}

// Place returns the first half of a packed UUID, or of a key that begins with one. In a
// UUIDv7 the first half has the millisecond of the UUID, the version, and, if New generated
// it, the fraction of the millisecond. For text Place reports false.
func Place(b []byte) (place uint64, ok bool) {
	if len(b) < 1+8 || b[0] != tagUUID {
		return 0, false
	}
	return binary.BigEndian.Uint64(b[1:]), true
}

// ErrMalformed is returned for bytes that are not packed uids.
var ErrMalformed = errors.New("malformed packed uid")

// Cut takes the first uid off a column of packed uids. The uid shares the
// column's memory.
func Cut(column string) (u UID, rest string, err error) {
	n := packedLength(column)
	if n == 0 {
		return "", column, ErrMalformed
	}
	return UID(column[:n]), column[n:], nil
}

// CutBytes is Cut for bytes. It copies the uid.
func CutBytes(b []byte) (u UID, rest []byte, err error) {
	if len(b) >= PackedUUID && b[0] == tagUUID {
		return UID(b[:PackedUUID]), b[PackedUUID:], nil
	}
	if len(b) > 2 && b[0] == tagText && b[1] > 0 && len(b) >= 2+int(b[1]) {
		n := 2 + int(b[1])
		return UID(b[:n]), b[n:], nil
	}
	return "", b, ErrMalformed
}

// Unpack appends the uids of a column to dst. It copies the column once, and
// all uids share that copy.
func Unpack(dst []UID, column []byte) ([]UID, error) {
	rest := string(column)
	for rest != "" {
		u, r, err := Cut(rest)
		if err != nil {
			return dst, err
		}
		dst, rest = append(dst, u), r
	}
	return dst, nil
}

// All iterates over the uids of a column as Unpack does, and ends at the
// first malformed one.
func All(column []byte) iter.Seq[UID] {
	return func(yield func(UID) bool) {
		rest := string(column)
		for rest != "" {
			u, r, err := Cut(rest)
			if err != nil || !yield(u) {
				return
			}
			rest = r
		}
	}
}

// Count returns the number of uids in a column.
func Count(column []byte) (n int, err error) {
	for len(column) > 0 {
		length := packedLength(column)
		if length == 0 {
			return n, ErrMalformed
		}
		n, column = n+1, column[length:]
	}
	return n, nil
}

// Pack appends uids to a column.
func Pack(column []byte, uids ...UID) []byte {
	for _, u := range uids {
		column = append(column, u...)
	}
	return column
}

// Valid reports whether s is exactly one packed uid.
func (u UID) Valid() bool {
	n := packedLength(u)
	return n > 0 && n == len(u)
}

func packedLength[T ~string | []byte](s T) int {
	switch {
	case len(s) >= PackedUUID && s[0] == tagUUID:
		return PackedUUID
	case len(s) > 2 && s[0] == tagText && s[1] > 0 && len(s) >= 2+int(s[1]):
		return 2 + int(s[1])
	}
	return 0
}

func isAlnum(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// parseCanonical accepts only the spelling that String returns: lower case, with hyphens.
// uuid.Parse accepts several spellings.
func parseCanonical(text string) (u uuid.UUID, ok bool) {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return u, false
	}
	src := [...]int{0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34}
	for i, at := range src {
		hi, ok1 := lowerHex(text[at])
		lo, ok2 := lowerHex(text[at+1])
		if !ok1 || !ok2 {
			return u, false
		}
		u[i] = hi<<4 | lo
	}
	return u, true
}

func lowerHex(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	}
	return 0, false
}

func encodeCanonical(dst *[36]byte, u string) {
	b := []byte(u)
	hex.Encode(dst[:8], b[:4])
	dst[8] = '-'
	hex.Encode(dst[9:13], b[4:6])
	dst[13] = '-'
	hex.Encode(dst[14:18], b[6:8])
	dst[18] = '-'
	hex.Encode(dst[19:23], b[8:10])
	dst[23] = '-'
	hex.Encode(dst[24:], b[10:])
}
