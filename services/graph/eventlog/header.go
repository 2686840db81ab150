package eventlog

import (
	"errors"
	"fmt"

	"github.com/coppice-gc/coppice/internal/codec/wire"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// decode sets the field f of the message b, if it belongs to the header.
func (h *Header) decode(f wire.Field, b []byte) error {
	switch f.Number {
	case commitRealmID:
		return copyID(&h.RealmID, f.Bytes(b))
	case commitID:
		return copyID(&h.ID, f.Bytes(b))
	case commitPrevious:
		h.Previous = f.Value
	case commitEpoch:
		h.Epoch = f.Value
	case commitTime:
		h.Time = lifecycle.Time(f.Value)
	case commitSequence:
		h.Sequence = f.Value
	case commitKey:
		h.Key = uint32(f.Value)
	case commitFirstRevision:
		h.FirstRevision = f.Value
	}
	return nil
}

// headerOf decodes only the header of a message or of a commit.
func headerOf(message []byte) (h Header, err error) {
	fields := wire.Read(message)
	for f, ok := fields.Next(); ok; f, ok = fields.Next() {
		if err := h.decode(f, message); err != nil {
			return h, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		if f.Number == commitFirstRevision { // it is written last
			break
		}
	}
	if err := fields.Err(); err != nil {
		return h, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return h, nil
}

func copyID(dst *[16]byte, b []byte) error {
	if len(b) != len(dst) {
		return errors.New("an id has 16 bytes")
	}
	copy(dst[:], b)
	return nil
}
