package snapshot

import (
	"context"
	"fmt"
	"io"

	"github.com/coppice-gc/coppice/internal/archive"
)

// CheckEntry is an archive.SnapshotCheck: it reads an entry of an archive, and returns the hash
// of its content. The error is that of Verify, or says that the entry is another snapshot.
func CheckEntry(ctx context.Context, in io.Reader, name archive.Name) (hash [32]byte, err error) {
	info, err := Verify(ctx, in)
	if err != nil {
		return hash, err
	}
	if is := EntryName(info); is != name {
		return hash, fmt.Errorf("its content is that of entry %s", is)
	}
	return info.Hash, nil
}

// EntryName returns the name of a snapshot in an archive.
func EntryName(info Info) archive.Name {
	return archive.SnapshotName([16]byte(info.Checkpoint.GetRealmId()), info.Checkpoint.GetSequence())
}
