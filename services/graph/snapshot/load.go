package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Stream is the stream of the log that a loaded state is to follow.
type Stream struct {
	// RealmID is the realm whose snapshot is expected; nil for any.
	RealmID []byte
	// Sequence is the commit whose snapshot is expected; zero for any.
	Sequence uint64
	// Hash is that of the content which is expected; zero for any.
	Hash [32]byte
	// Created is when the stream was created, Unix nanoseconds.
	Created int64
	// Grown is called with the directory of the state that is being loaded, each time that 4 MiB
	// of rows or more were added to it. If it returns an error, the load fails with that error. It
	// may be nil.
	Grown func(dir string) error
}

// grownStep is the number of bytes of rows between two calls of Stream.Grown.
const grownStep = 4 << 20

// Build builds the state of a snapshot in dir, which must be empty or not exist. The caller compares the
// state with its log before it follows it (replay.CheckLog), as after every start. The error is a
// DamagedError or a VersionError, or wraps ErrForeign if the snapshot cannot be used. After an error
// the directory has an empty state, or files that belong to none, and should be removed.
func Build(ctx context.Context, in io.Reader, dir string, s Stream, c state.Config) (Info, error) {
	r, err := newReader(in)
	if err != nil {
		return Info{}, err
	}
	if s.RealmID != nil && string(s.RealmID) != string(r.cp.GetRealmId()) {
		return Info{}, fmt.Errorf("snapshot: %w: byte %d: it is of realm %x, and %x is expected; use a snapshot of this realm",
			ErrForeign, realmOffset, r.cp.GetRealmId(), s.RealmID)
	}
	if s.Sequence != 0 && s.Sequence != r.cp.GetSequence() {
		return Info{}, fmt.Errorf("snapshot: %w: byte %d: it is of commit %d, and %d is expected", ErrForeign, sequenceOffset, r.cp.GetSequence(), s.Sequence)
	}
	l, err := state.NewLoader(dir, c)
	if err != nil {
		return Info{}, err
	}
	info, err := r.each(ctx, s.watched(dir, l.Add))
	if err == nil && s.Hash != [32]byte{} && s.Hash != info.Hash {
		err = fmt.Errorf("snapshot: %w: its content is %x, and %x is expected", ErrForeign, info.Hash, s.Hash)
	}
	if err != nil {
		return Info{}, errors.Join(err, l.Abort())
	}
	cp := proto.Clone(info.Checkpoint).(*coppicev1.Checkpoint)
	cp.StreamCreated = s.Created
	return info, l.Finish(ctx, cp)
}

// watched returns add, which calls Grown at times.
func (s *Stream) watched(dir string, add func(key, value []byte) error) func(key, value []byte) error {
	if s.Grown == nil {
		return add
	}
	unseen := 0
	return func(key, value []byte) error {
		if err := add(key, value); err != nil {
			return err
		}
		if unseen += len(key) + len(value); unseen < grownStep {
			return nil
		}
		unseen = 0
		return s.Grown(dir)
	}
}

// Offsets of the realm id and of the sequence in the file.
const (
	realmOffset    = len(magic) + 4 + 4
	sequenceOffset = realmOffset + 16
)
