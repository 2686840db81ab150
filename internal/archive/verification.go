package archive

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"time"
)

// Verification is the record that a snapshot was verified: the snapshot From, or nothing, and the
// segments since were read back from the archive and folded, and the result had the same
// content as the snapshot. docs/formats.md specifies the entry.
type Verification struct {
	Sequence uint64 // of the commit of the snapshot
	Position uint64 // of the commit in the stream of the log
	Revision uint64 // after the commit
	Checksum uint64 // of the commit
	Hash     [32]byte
	From     uint64 // sequence of the snapshot from which the fold began; 0 for none
	By       string // the graph service
	At       time.Time
}

// verificationFormat is the format version of the record.
const verificationFormat = 1

// maxVerification is the maximum size of a record in bytes.
const maxVerification = 4 << 10

// VersionError says that a record of a verification has a format of another version.
type VersionError struct{ Format uint32 }

func (e *VersionError) Error() string {
	return fmt.Sprintf("it has format %d, and this program reads format %d: use the version of Coppice that wrote it, or a later one", e.Format, verificationFormat)
}

// OtherVersion says that the error is due to the version of Coppice, and not to damage.
func (e *VersionError) OtherVersion() {}

type verificationJSON struct {
	Format   uint32    `json:"format"`
	Sequence uint64    `json:"sequence"`
	Position uint64    `json:"position"`
	Revision uint64    `json:"revision"`
	Checksum string    `json:"checksum"`
	Hash     string    `json:"sha256"`
	From     uint64    `json:"from"`
	By       string    `json:"by"`
	At       time.Time `json:"at"`
}

// PutVerification stores the record of a verification. The error wraps ErrExists if the
// snapshot has one.
func PutVerification(ctx context.Context, store Store, realm [16]byte, v Verification) error {
	line, err := json.Marshal(verificationJSON{
		Format: verificationFormat, Sequence: v.Sequence, Position: v.Position, Revision: v.Revision, Checksum: fmt.Sprintf("%016x", v.Checksum),
		Hash: hex.EncodeToString(v.Hash[:]), From: v.From, By: v.By, At: v.At.UTC().Truncate(time.Second),
	})
	if err != nil {
		return err
	}
	b := fmt.Appendf(line, "\n%08x\n", crc32.ChecksumIEEE(line))
	return store.Put(ctx, VerifiedName(realm, v.Sequence).String(), bytes.NewReader(b), int64(len(b)))
}

// ReadVerification reads the record of the verification of a snapshot. The error wraps
// ErrNotFound if there is none.
func ReadVerification(ctx context.Context, store Store, realm [16]byte, sequence uint64) (v Verification, err error) {
	name := VerifiedName(realm, sequence).String()
	for e, err := range store.List(ctx, name) {
		if err != nil {
			return v, err
		}
		if e.Name != name {
			continue
		}
		b, err := readSmall(ctx, store, e, maxVerification)
		if err == nil {
			if v, err = parseVerification(b); err == nil && v.Sequence != sequence {
				err = fmt.Errorf("it is the record of commit %d", v.Sequence)
			}
			if err != nil {
				err = &unusableError{err}
			}
		}
		if err != nil {
			return Verification{}, fmt.Errorf("archive %s: record %s: %w", store, name, err)
		}
		return v, nil
	}
	return v, fmt.Errorf("archive %s: record %s: %w", store, name, ErrNotFound)
}

func parseVerification(b []byte) (v Verification, err error) {
	line, err := checkedLine(b)
	if err != nil {
		return v, err
	}
	var j verificationJSON
	if err := json.Unmarshal(line, &j); err != nil {
		return v, err
	}
	if j.Format != verificationFormat {
		return v, &VersionError{j.Format}
	}
	v = Verification{Sequence: j.Sequence, Position: j.Position, Revision: j.Revision, From: j.From, By: j.By, At: j.At}
	if _, err := fmt.Sscanf(j.Checksum, "%016x", &v.Checksum); err != nil {
		return v, err
	}
	hash, err := hex.DecodeString(j.Hash)
	if err != nil || copy(v.Hash[:], hash) != len(v.Hash) {
		return v, errors.New("its hash is not a SHA-256")
	}
	return v, nil
}
