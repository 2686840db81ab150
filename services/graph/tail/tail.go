// Package tail remembers the end of a log in a small file of the graph service, so that a
// log that has lost its newest commits is noticed.
//
// The state alone does not show such a loss: it is written to disk late, and after a crash
// it ends before commits that were acknowledged. A NATS server that finds a damaged byte
// in the newest file of a stream cuts the stream there, and reports a shorter stream
// without any error.
package tail

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/coppice-gc/coppice/internal/datadir"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Mark names a commit that was in the log. The zero Mark names none.
type Mark struct {
	// Sequence is the number of the commit, and Position its sequence in the stream.
	Sequence uint64 `json:"sequence"`
	Position uint64 `json:"position"`
	// Revision is that of the last object event up to the commit.
	Revision uint64 `json:"revision"`
	// Checksum is that of the commit, which covers all commits before it.
	Checksum uint64 `json:"checksum"`
	// RealmID is the id of the log, in hexadecimal.
	RealmID string `json:"realmID,omitempty"`
	// Key is the number of the key of the next commit, and Fingerprint that of this key, in hexadecimal; empty in a file
	// that does not have it.
	Key         uint32 `json:"key,omitempty"`
	Fingerprint string `json:"keyFingerprint,omitempty"`
	// Created is when the stream of the log was created, in Unix nanoseconds; zero if it is not known.
	Created int64 `json:"created,omitempty"`
}

// Of returns the mark of the last commit of a state.
func Of(c *coppicev1.Checkpoint) Mark {
	return Mark{
		Sequence: c.GetSequence(), Position: c.GetPosition(), Revision: c.GetRevision(), Checksum: c.GetChecksum(), RealmID: hex.EncodeToString(c.GetRealmId()),
		Key: c.GetKey(), Fingerprint: hex.EncodeToString(c.GetKeyFingerprint()), Created: c.GetStreamCreated(),
	}
}

// Realm returns the id of the log, zero if it is not known.
func (m Mark) Realm() (id [16]byte) {
	b, err := hex.DecodeString(m.RealmID)
	if err == nil {
		copy(id[:], b)
	}
	return id
}

// ErrDamaged is returned by Read for a file that was not written by Write.
var ErrDamaged = errors.New("the file is damaged")

// Read reads a mark. It returns the zero Mark if the file does not exist.
func Read(file string) (m Mark, err error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return m, err
	}
	line, sum, _ := strings.Cut(string(b), "\n")
	if strings.TrimSuffix(sum, "\n") != checksum(line) {
		return m, fmt.Errorf("%s: %w", file, ErrDamaged)
	}
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		return Mark{}, fmt.Errorf("%s: %w: %w", file, ErrDamaged, err)
	}
	return m, nil
}

// Write replaces a mark and syncs it to disk. After a crash the file has either the old
// mark or the new one.
func Write(file string, m Mark) error {
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return datadir.ReplaceFile(file, []byte(string(line)+"\n"+checksum(string(line))+"\n"))
}

// checksum returns the second line of the file: the checksum of the first.
func checksum(line string) string {
	h := xxhash.New()
	_, _ = h.WriteString(line)
	return hex.EncodeToString(h.Sum(nil))
}

// File returns the name of the file for a realm, in the directory of a graph service. It is
// not in the directory of the state: a state that is rebuilt must not forget it.
func File(dir, realm string) string { return filepath.Join(dir, realm+".tail") }
