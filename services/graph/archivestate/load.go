package archivestate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/services/graph/snapshot"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Archive is the part of an archive that belongs to one realm. It is safe for concurrent use.
type Archive struct {
	Store archive.Store
	Realm [16]byte
	// Log gets a line for each entry that cannot be used.
	Log *slog.Logger
	// Admit is called before a snapshot is loaded, with the size in bytes that it has in the archive. If
	// it returns an error, nothing is loaded, and Load fails with that. It may be nil.
	Admit func(size int64) error
	// Grown bounds a load: see snapshot.Stream. It may be nil.
	Grown func(dir string) error
}

// ErrNoSnapshot is wrapped by the error of Load if the archive has no snapshot of the realm
// that can be used.
var ErrNoSnapshot = errors.New("the archive has no verified snapshot of the realm that can be used")

// Load builds the state of the newest verified snapshot of the realm that is not after the commit last in dir,
// which must be empty or not exist. It skips a snapshot that is damaged, of another version,
// or of other content than was verified, or that alone the store cannot read, and logs its name. If no snapshot is
// left, the error wraps ErrNoSnapshot, and the snapshot.VersionError of the newest one that needs another version of
// Coppice, or is that of the store, with this VersionError. After an error dir does not exist. created is when the stream of the realm's log was
// created, in Unix nanoseconds.
func (a *Archive) Load(ctx context.Context, dir string, created int64, last uint64, c state.Config) (info snapshot.Info, err error) {
	snapshots, verified, err := archive.Snapshots(ctx, a.Store, a.Realm)
	if err != nil {
		return info, err
	}
	var fallback archive.Fallback
	none := fmt.Errorf("archive %s: %w: realm id %x", a.Store, ErrNoSnapshot, a.Realm)
	var version *snapshot.VersionError
	for _, s := range slices.Backward(snapshots) {
		if s.Last > last || !verified[s.Last] {
			continue
		}
		info, err = a.load(ctx, s, dir, snapshot.Stream{RealmID: a.Realm[:], Created: created}, c)
		if err == nil {
			return info, nil
		}
		if version == nil && errors.As(err, &version) {
			none = fmt.Errorf("%w; %s: %w", none, s.Entry.Name, err)
		}
		unusable := snapshot.IsUnusable(err)
		if !unusable && !errors.As(err, new(*snapshot.ReadError)) {
			return info, err
		}
		if err := fallback.From(ctx, err, unusable); err != nil {
			return info, err
		}
		a.Log.Warn("a snapshot in the archive cannot be used; trying the one before", "archive", a.Store.String(), "snapshot", s.Entry.Name, "error", err)
	}
	err = fallback.Err()
	switch {
	case err == nil:
		err = none
	case version != nil:
		err = fmt.Errorf("%w; and %w", err, version)
	}
	return info, err
}

func (a *Archive) load(ctx context.Context, s archive.Item, dir string, stream snapshot.Stream, c state.Config) (info snapshot.Info, err error) {
	if a.Admit != nil {
		if err := a.Admit(s.Entry.Size); err != nil {
			return info, err
		}
	}
	v, err := archive.ReadVerification(ctx, a.Store, a.Realm, s.Last)
	if err != nil {
		return info, &snapshot.ReadError{Err: err}
	}
	stream.Hash, stream.Grown = v.Hash, a.Grown
	in, err := a.Store.Open(ctx, s.Entry.Name, 0, s.Entry.Size)
	if err != nil {
		return info, &snapshot.ReadError{Err: err}
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	stream.Sequence = s.Last
	if info, err = snapshot.Build(ctx, in, dir, stream, c); err != nil {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return info, err
}
