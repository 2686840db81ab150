package state

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/coppice-gc/coppice/internal/secret"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// The content of a state is what the commits of the log determine: the manifest, and the
// rows of all tables but two. The table of positions depends on which other messages are in
// the stream of the log, and the meta table is in the manifest. Replicas have equal contents at
// equal commits, also if they read copies of the log from different streams.

// ManifestSize is the size of an encoded manifest in bytes.
const ManifestSize = 4 + 16 + 7*8 + 4 + secret.FingerprintSize

// AppendManifest appends the manifest of a state to b: the version of the layout, and the
// checkpoint without what belongs to one stream. docs/formats.md specifies the bytes.
func AppendManifest(b []byte, cp *coppicev1.Checkpoint) []byte {
	b = binary.LittleEndian.AppendUint32(b, schema)
	var realm [16]byte
	copy(realm[:], cp.GetRealmId())
	b = append(b, realm[:]...)
	for _, v := range []uint64{
		cp.GetSequence(), cp.GetRevision(), cp.GetChecksum(), cp.GetEpoch(), uint64(cp.GetTime()),
		cp.GetIndexedRevision(), uint64(cp.GetNewestCommandId()),
	} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = binary.LittleEndian.AppendUint32(b, cp.GetKey())
	var fingerprint [secret.FingerprintSize]byte
	copy(fingerprint[:], cp.GetKeyFingerprint())
	return append(b, fingerprint[:]...)
}

// DecodeManifest decodes ManifestSize bytes. The checkpoint has neither a position nor the
// time at which a stream was created. The error wraps ErrSchema if the content has a
// layout that a Loader cannot load.
func DecodeManifest(b []byte) (*coppicev1.Checkpoint, error) {
	if len(b) != ManifestSize {
		return nil, errCorrupt
	}
	if v := binary.LittleEndian.Uint32(b); !readable(v) {
		return nil, fmt.Errorf("%w: %d, not %d", ErrSchema, v, schema)
	}
	cp := &coppicev1.Checkpoint{RealmId: append([]byte(nil), b[4:20]...)}
	b = b[20:]
	next := func() uint64 {
		v := binary.LittleEndian.Uint64(b)
		b = b[8:]
		return v
	}
	cp.Sequence, cp.Revision, cp.Checksum, cp.Epoch, cp.Time = next(), next(), next(), next(), int64(next())
	cp.IndexedRevision, cp.NewestCommandId = next(), int64(next())
	cp.Key = binary.LittleEndian.Uint32(b)
	cp.KeyFingerprint = append([]byte(nil), b[4:]...)
	return cp, nil
}

// RowHeader is the size in bytes of what precedes the key in an encoded row.
const RowHeader = 4 + 4

// AppendRow appends a row to b: the sizes of key and value, little-endian, the key, the value.
func AppendRow(b, key, value []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(key)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(value)))
	return append(append(b, key...), value...)
}

// CutRow returns the first row of b, which share its memory, and what follows it.
func CutRow(b []byte) (key, value, rest []byte, err error) {
	if len(b) < RowHeader {
		return nil, nil, nil, errCorrupt
	}
	k, v := uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[4:]))
	b = b[RowHeader:]
	if k == 0 || k+v > uint64(len(b)) {
		return nil, nil, nil, errCorrupt
	}
	return b[:k:k], b[k : k+v : k+v], b[k+v:], nil
}

// ErrNoContent is returned for the content of a state before the first commit.
var ErrNoContent = errors.New("the state has no commit yet")

// EachRow calls visit for the rows of the content, in the order of their keys, until visit
// returns an error, which EachRow returns. Key and value are valid during the call.
func (s *Snapshot) EachRow(visit func(key, value []byte) error) error {
	from := byte(0)
	for _, table := range []byte{tableMeta, tablePositions} {
		if err := s.eachRow(&pebble.IterOptions{LowerBound: []byte{from}, UpperBound: []byte{table}}, visit); err != nil {
			return err
		}
		from = table + 1
	}
	return s.eachRow(&pebble.IterOptions{LowerBound: []byte{from}}, visit)
}

// EachPosition is EachRow for the table of positions, which is not part of the content.
func (s *Snapshot) EachPosition(visit func(key, value []byte) error) error {
	return s.eachRow(&pebble.IterOptions{LowerBound: []byte{tablePositions}, UpperBound: []byte{tablePositions + 1}}, visit)
}

func (s *Snapshot) eachRow(o *pebble.IterOptions, visit func(key, value []byte) error) error {
	if err := s.Err(); err != nil {
		return err
	}
	var refused error // by visit
	err := protect(func() (err error) {
		it, err := s.snap.NewIter(o)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, it.Close()) }() // Close returns a failure of the iterator
		for it.First(); it.Valid() && !s.r.ended("content"); it.Next() {
			value, err := it.ValueAndErr()
			if err != nil {
				return err
			}
			if refused = visit(it.Key(), value); refused != nil {
				return nil
			}
		}
		return nil
	})
	if err != nil {
		s.r.fail("content", err)
	}
	return cmp.Or(refused, s.Err())
}

// ContentHash reads the whole content and returns its SHA-256: of the manifest followed by the
// rows. States with equal hashes have equal contents. pace, unless it is nil, is called with the bytes since its
// last call; ContentHash fails with its error.
func (s *Snapshot) ContentHash(pace func(bytes int) error) (hash [sha256.Size]byte, err error) {
	if s.checkpoint.GetSequence() == 0 {
		return hash, ErrNoContent
	}
	const enough = 64 << 10 // bytes
	h := sha256.New()
	b := AppendManifest(nil, s.checkpoint)
	if err := s.EachRow(func(key, value []byte) error {
		if b = AppendRow(b, key, value); len(b) < enough {
			return nil
		}
		_, _ = h.Write(b) // never fails
		n := len(b)
		if b = b[:0]; pace == nil {
			return nil
		}
		return pace(n)
	}); err != nil {
		return hash, err
	}
	_, _ = h.Write(b)
	return [sha256.Size]byte(h.Sum(nil)), nil
}
