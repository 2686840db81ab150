package commitcodec

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/coppice-gc/coppice/internal/codec/wire"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// Field numbers of coppice.v1.RealmChanged and Origin.
const (
	EventRealm = 11 // of coppice.v1.Event

	RealmOrigin    = 1
	RealmPaused    = 2
	RealmSince     = 3
	OriginRealmID  = 1
	OriginSequence = 2
)

// ReadRealm decodes a coppice.v1.RealmChanged.
func ReadRealm(b []byte) (r lifecycle.RealmChange, err error) {
	err = wire.Fields(b, func(f wire.Field) error {
		switch f.Number {
		case RealmOrigin:
			if f.Type != protowire.BytesType {
				return wire.ErrType
			}
			r.Origin, err = readOrigin(f.Bytes(b))
			return err
		case RealmPaused:
			r.Paused = f.Value != 0
		case RealmSince:
			r.Since = lifecycle.Time(f.Value)
		}
		return nil
	})
	return r, err
}

func readOrigin(b []byte) (o lifecycle.Origin, err error) {
	err = wire.Fields(b, func(f wire.Field) error {
		switch f.Number {
		case OriginRealmID:
			return CopyID(&o.RealmID, f.Bytes(b))
		case OriginSequence:
			o.Sequence = f.Value
		}
		return nil
	})
	return o, err
}

// Origin returns the origin that an uncompressed commit records, zero for none: then the commit
// is the first of a realm that continues another log.
func Origin(commit []byte) (o lifecycle.Origin, err error) {
	err = wire.Fields(commit, func(f wire.Field) error {
		if f.Number != CommitEvents {
			return nil
		}
		event := f.Bytes(commit)
		return wire.Fields(event, func(f wire.Field) error {
			if f.Number != EventRealm {
				return nil
			}
			if f.Type != protowire.BytesType {
				return wire.ErrType
			}
			r, err := ReadRealm(f.Bytes(event))
			if r.Origin != (lifecycle.Origin{}) {
				o = r.Origin
			}
			return err
		})
	})
	if err != nil {
		return o, fmt.Errorf("%w: event: %w", ErrMalformed, err)
	}
	return o, nil
}

// Continues reports whether an uncompressed commit begins a realm that continues the log which
// ends with a commit.
func Continues(commit []byte, realm [16]byte, sequence uint64) (bool, error) {
	o, err := Origin(commit)
	return err == nil && o == lifecycle.Origin{RealmID: realm, Sequence: sequence}, err
}
