// Package commitcodec decodes what a reader needs of a commit (coppice.v1.Commit) without
// its objects: the header, the checksum, and the number of object events. Package eventlog
// decodes the rest. It does no I/O.
package commitcodec

import (
	"errors"
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/coppice-gc/coppice/internal/codec/wire"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// Field numbers of coppice.v1.Commit and of the messages in it.
const (
	CommitRealmID       = 1
	CommitID            = 2
	CommitPrevious      = 3
	CommitEpoch         = 4
	CommitTime          = 5
	CommitFirstRevision = 6 // the last field of the header
	CommitEvents        = 8
	CommitSequence      = 12 // in the header
	CommitKey           = 14 // in the header
	CommitFormat        = 17 // in the header

	EventCreated          = 4
	EventUpdated          = 5
	EventMarked           = 6
	EventOwnersRemoved    = 7
	EventFinalizerRemoved = 8
	EventDeleted          = 9

	// ColumnObjects is a field of DeletionMarked, OwnerReferencesRemoved, FinalizerRemoved
	// and ObjectsDeleted, IDUIDs one of the message in it.
	ColumnObjects = 1
	IDUIDs        = 1
)

// Versions of the log format. This program reads those up to Format. It writes into a commit the
// first one that has what the commit has, so that an older program reads the log until then.
const (
	BaseFormat   = 1
	FormatNotice = 2 // notices of expiry policies, and sharedNamespaces in the realm settings
	FormatSince  = 3 // RealmChanged.since
	// FormatBlockOwnerDeletion: blockOwnerDeletion in the realm settings.
	FormatBlockOwnerDeletion = 4
	Format                   = FormatBlockOwnerDeletion
)

// NewerError is returned for a commit whose format is newer than this program. Waiting does
// not help, and skipping the commit would give a wrong state.
type NewerError struct {
	Sequence uint64 // the number of the commit
	Format   uint32
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("commit %d has version %d of the log format, and this program reads versions up to %d: replace it by the version of Coppice that has written the commit, or a newer one; nothing was changed", e.Sequence, e.Format, Format)
}

// ErrMalformed is returned for a message that is not a commit.
var ErrMalformed = errors.New("malformed commit")

// Header has the fields of a commit other than its commands and events.
type Header struct {
	RealmID  [16]byte
	ID       [16]byte
	Previous uint64 // checksum of the commit before
	Epoch    uint64
	Time     lifecycle.Time
	// Sequence is the number of the commit, 1 for the first. It is its position in the
	// stream unless messages before it are skipped.
	Sequence uint64
	Key      uint32 // the number of the key that authenticates it
	Format   uint32 // the version of the log format
	// FirstRevision is the revision of the first object event of the commit; if it has none, that of
	// the next one in the log.
	FirstRevision uint64
}

func (h Header) String() string {
	return fmt.Sprintf("commit %x of epoch %d", h.ID[:4], h.Epoch)
}

// ReadHeader decodes only the header of a message or of a commit.
func ReadHeader(message []byte) (h Header, err error) {
	fields := wire.Read(message)
	for f, ok := fields.Next(); ok; f, ok = fields.Next() {
		if err := h.Set(f, message); err != nil {
			return h, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		if f.Number == CommitFirstRevision { // it is written last
			break
		}
	}
	if err := fields.Err(); err != nil {
		return h, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return h, nil
}

// Set sets the field f of the message b, if it belongs to the header.
func (h *Header) Set(f wire.Field, b []byte) error {
	switch f.Number {
	case CommitRealmID:
		return CopyID(&h.RealmID, f.Bytes(b))
	case CommitID:
		return CopyID(&h.ID, f.Bytes(b))
	case CommitPrevious:
		h.Previous = f.Value
	case CommitEpoch:
		h.Epoch = f.Value
	case CommitTime:
		h.Time = lifecycle.Time(f.Value)
	case CommitSequence:
		h.Sequence = f.Value
	case CommitKey:
		h.Key = uint32(f.Value)
	case CommitFormat:
		h.Format = uint32(min(f.Value, math.MaxUint32))
	case CommitFirstRevision:
		h.FirstRevision = f.Value
	}
	return nil
}

// Readable returns a NewerError if this program does not know the format of the commit. It
// must be called before anything else than the header is decoded, and after the commit's
// authentication code was checked: a foreign message may claim any format.
func (h *Header) Readable() error {
	if h.Format > Format {
		return &NewerError{Sequence: h.Sequence, Format: h.Format}
	}
	return nil
}

// CopyID copies an id, which must have 16 bytes.
func CopyID(dst *[16]byte, b []byte) error {
	if len(b) != len(dst) {
		return errors.New("an id has 16 bytes")
	}
	copy(dst[:], b)
	return nil
}

// Checksum returns the checksum of an uncompressed commit, which the next commit names.
func Checksum(commit []byte) uint64 { return xxhash.Sum64(commit) }

// CountEvents returns the number of object events in an uncompressed commit: by so much
// the commit advances the revision.
func CountEvents(commit []byte) (n uint64, err error) {
	err = wire.Fields(commit, func(f wire.Field) error {
		if f.Number != CommitEvents {
			return nil
		}
		in, err := countEvent(f.Bytes(commit))
		n += in
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("%w: event: %w", ErrMalformed, err)
	}
	return n, nil
}

// countEvent returns the number of objects that an event changes, 0 for an event that
// changes none.
func countEvent(event []byte) (n uint64, err error) {
	err = wire.Fields(event, func(f wire.Field) error {
		switch f.Number {
		case EventCreated, EventUpdated:
			n = 1
		case EventMarked, EventOwnersRemoved, EventFinalizerRemoved, EventDeleted:
			if f.Type != protowire.BytesType {
				return wire.ErrType
			}
			n, err = countColumns(f.Bytes(event))
			return err
		}
		return nil
	})
	return n, err
}

func countColumns(columns []byte) (n uint64, err error) {
	err = wire.Fields(columns, func(f wire.Field) error {
		if f.Number != ColumnObjects {
			return nil
		}
		identities := f.Bytes(columns)
		return wire.Fields(identities, func(f wire.Field) error {
			if f.Number != IDUIDs {
				return nil
			}
			in, err := uid.Count(f.Bytes(identities))
			n += uint64(in)
			return err
		})
	})
	return n, err
}
