package archive

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"time"
)

// Backup is the manifest of a backup: which realms of an installation an archive can restore, and up to which commit of each. It is
// put after everything that it needs, so that an interrupted backup has none. docs/formats.md specifies the entry.
type Backup struct {
	ID      [8]byte
	At      time.Time // what was committed before is in the backup
	By      string    // the process that has made it
	Coppice string    // its version
	Realms  []BackupRealm
}

// BackupRealm is a realm of a backup.
type BackupRealm struct {
	Name     string
	ID       [16]byte
	Sequence uint64 // of the last commit
	Revision uint64 // after this commit
	Paused   bool   // the realm was paused
}

const (
	// backupFormat is the format version of a manifest.
	backupFormat = 1
	// maxBackup is the maximum size of a manifest in bytes. An installation has at most 1,000 realms.
	maxBackup = 1 << 20
	// backupPrefix is that of the names of manifests.
	backupPrefix = "backup/"
	// backupTime is the time in their names, which is thus their order.
	backupTime = "20060102t150405.000000z"
)

type backupJSON struct {
	Format  uint32            `json:"format"`
	ID      string            `json:"id"`
	At      time.Time         `json:"at"`
	By      string            `json:"by"`
	Coppice string            `json:"coppice"`
	Realms  []backupRealmJSON `json:"realms"`
}

type backupRealmJSON struct {
	Name     string `json:"name"`
	ID       string `json:"id"`
	Sequence uint64 `json:"sequence"`
	Revision uint64 `json:"revision"`
	Paused   bool   `json:"paused"`
}

// NewBackup returns a manifest without realms, with a random id.
func NewBackup(at time.Time, by, version string) Backup {
	b := Backup{At: at.UTC().Truncate(time.Microsecond), By: by, Coppice: version}
	_, _ = rand.Read(b.ID[:]) // it never fails
	return b
}

// Name returns the name of the entry. Names are ordered by time.
func (b *Backup) Name() string {
	return backupPrefix + b.At.UTC().Format(backupTime) + "-" + hex.EncodeToString(b.ID[:])
}

// IsBackup reports whether a name is that of a manifest.
func IsBackup(name string) bool {
	at, id, _ := strings.Cut(strings.TrimPrefix(name, backupPrefix), "-")
	t, err := time.Parse(backupTime, at)
	raw, bad := hex.DecodeString(id)
	var b Backup
	return err == nil && bad == nil && copy(b.ID[:], raw) == len(b.ID) && (&Backup{ID: b.ID, At: t}).Name() == name
}

// PutBackup stores a manifest.
func PutBackup(ctx context.Context, store Store, b Backup) error {
	j := backupJSON{Format: backupFormat, ID: hex.EncodeToString(b.ID[:]), At: b.At.UTC(), By: b.By, Coppice: b.Coppice}
	for _, r := range b.Realms {
		j.Realms = append(j.Realms, backupRealmJSON{r.Name, hex.EncodeToString(r.ID[:]), r.Sequence, r.Revision, r.Paused})
	}
	line, err := json.Marshal(j)
	if err != nil {
		return err
	}
	content := fmt.Appendf(line, "\n%08x\n", crc32.ChecksumIEEE(line))
	return store.Put(ctx, b.Name(), bytes.NewReader(content), int64(len(content)))
}

// Backups returns the entries with manifests, the newest last.
func Backups(ctx context.Context, store Store) (list []Entry, err error) {
	for e, err := range store.List(ctx, backupPrefix) {
		if err != nil {
			return nil, err
		}
		if IsBackup(e.Name) {
			list = append(list, e)
		}
	}
	return list, nil
}

// ReadBackup reads a manifest of a list that Backups has returned.
func ReadBackup(ctx context.Context, store Store, e Entry) (b Backup, err error) {
	content, err := readSmall(ctx, store, e, maxBackup)
	if err == nil {
		if b, err = parseBackup(content); err == nil && b.Name() != e.Name {
			err = fmt.Errorf("it is the manifest %s", b.Name())
		}
		if err != nil {
			err = &unusableError{err}
		}
	}
	if err != nil {
		return Backup{}, fmt.Errorf("archive %s: %s: %w", store, e.Name, err)
	}
	return b, nil
}

func parseBackup(content []byte) (b Backup, err error) {
	line, err := checkedLine(content)
	if err != nil {
		return b, err
	}
	var j backupJSON
	if err := json.Unmarshal(line, &j); err != nil {
		return b, err
	}
	if j.Format != backupFormat {
		return b, &VersionError{j.Format}
	}
	b = Backup{At: j.At, By: j.By, Coppice: j.Coppice}
	if err := decodeID(b.ID[:], j.ID); err != nil {
		return b, err
	}
	for _, r := range j.Realms {
		realm := BackupRealm{Name: r.Name, Sequence: r.Sequence, Revision: r.Revision, Paused: r.Paused}
		if err := decodeID(realm.ID[:], r.ID); err != nil {
			return b, err
		}
		b.Realms = append(b.Realms, realm)
	}
	return b, nil
}

func decodeID(to []byte, text string) error {
	id, err := hex.DecodeString(text)
	if err != nil || len(id) != len(to) {
		return fmt.Errorf("%q is not an id of %d bytes", text, len(to))
	}
	copy(to, id)
	return nil
}

// checkedLine returns the first line of an entry that ends with its CRC-32.
func checkedLine(content []byte) ([]byte, error) {
	line, sum, _ := bytes.Cut(content, []byte("\n"))
	if string(sum) != fmt.Sprintf("%08x\n", crc32.ChecksumIEEE(line)) {
		return nil, errors.New("it is damaged: its checksum is wrong")
	}
	return line, nil
}

// readSmall reads an entry that has at most a number of bytes.
func readSmall(ctx context.Context, store Store, e Entry, most int64) (b []byte, err error) {
	if e.Size > most {
		return nil, &unusableError{fmt.Errorf("it has %d bytes, more than %d", e.Size, most)}
	}
	in, err := open(ctx, store, e)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	return io.ReadAll(in)
}
