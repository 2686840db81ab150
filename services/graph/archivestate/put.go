package archivestate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/services/graph/snapshot"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// PutSnapshot stores a snapshot of a state that was built from verified commits, and the record of that,
// so that replicas start from it. The snapshot is read back from the archive before it
// counts as verified. If the archive has a snapshot of that commit already, its content must be
// equal. by names this process for operators. temp is the directory of a temporary file; if it is
// empty, that of os.TempDir.
func PutSnapshot(ctx context.Context, store archive.Store, snap *state.Snapshot, temp, by string, now time.Time) (info snapshot.Info, err error) {
	f, err := os.CreateTemp(temp, "coppice-snapshot-")
	if err != nil {
		return info, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	if info, err = snapshot.Write(ctx, f, snap, snapshot.WriteOptions{}); err != nil {
		return info, err
	}
	if _, err := f.Seek(0, 0); err != nil {
		return info, err
	}
	name := snapshot.EntryName(info)
	if err := store.Put(ctx, name.String(), f, info.Size); err != nil && !errors.Is(err, archive.ErrExists) {
		return info, err
	}
	in, err := store.Open(ctx, name.String(), 0, info.Size)
	if err != nil {
		return info, err
	}
	hash, err := snapshot.CheckEntry(ctx, in, name)
	if err = errors.Join(err, in.Close()); err != nil {
		return info, fmt.Errorf("archive %s: %s: %w", store, name, err)
	}
	if hash != info.Hash {
		return info, fmt.Errorf("archive %s: %s has another content than the state: %x, not %x; delete the entry", store, name, hash, info.Hash)
	}
	cp := snap.Checkpoint()
	err = archive.PutVerification(ctx, store, name.Realm, archive.Verification{
		Sequence: cp.GetSequence(), Position: cp.GetPosition(), Revision: cp.GetRevision(), Checksum: cp.GetChecksum(), Hash: hash, By: by, At: now,
	})
	if errors.Is(err, archive.ErrExists) {
		err = nil
	}
	return info, err
}
