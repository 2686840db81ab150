// Package secret reads and writes the secret of an installation. The keys that
// authenticate the commits of its logs are derived from it. Only graph services need the
// secret; they share it.
//
// A secret is generated once. After a restore, commits that the restored log lost may
// still be known to others. Therefore the operator adds a second secret, with the next
// number. Both stay in the file, because the older part of the log needs the older key.
package secret

import (
	"bufio"
	"bytes"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Size is the size of a secret and of a key, in bytes.
const Size = 32

// FingerprintSize is the size of a fingerprint, in bytes.
const FingerprintSize = 8

// FileName is the name of the file in a data directory. No realm can have it.
const FileName = "coppice.secret"

// Env is the environment variable that holds secrets in the format of a file.
const Env = "COPPICE_SECRET"

// ErrMalformed is returned for text that is not in the format of a file of secrets.
var ErrMalformed = errors.New("malformed secret")

// Secrets are the secrets of an installation, by number. The zero value has none.
// They are safe for concurrent use.
type Secrets struct {
	list []numbered // ascending
}

type numbered struct {
	number uint32
	value  [Size]byte
}

// Key is derived from a secret for one realm.
type Key struct {
	Number uint32
	Value  [Size]byte
	// Fingerprint differs between keys of the same number, and does not reveal the key.
	Fingerprint [FingerprintSize]byte
}

// Draw returns the secrets and a new random one with the next number.
func (s Secrets) Draw() Secrets {
	n := numbered{number: s.Newest() + 1}
	_, _ = rand.Read(n.value[:]) // never fails
	return Secrets{append(slices.Clip(s.list), n)}
}

// Newest returns the number of the newest secret, 0 if there is none.
func (s Secrets) Newest() uint32 {
	if len(s.list) == 0 {
		return 0
	}
	return s.list[len(s.list)-1].number
}

// Key derives the key of a realm from the secret with a number, and reports whether there
// is such a secret. The realm's name and id are part of the derivation, so that a commit
// of one realm is not authentic in another.
func (s Secrets) Key(number uint32, realm string, id [16]byte) (k Key, ok bool) {
	k.Number = number
	ok = s.derive("log", number, realm, id, k.Value[:]) && s.derive("fingerprint", number, realm, id, k.Fingerprint[:])
	if !ok {
		return Key{}, false
	}
	return k, true
}

// GrantKey derives the key of the grants in a realm with an id from the secret with a number, and
// reports whether there is such a secret. It is independent of the keys of logs.
func (s Secrets) GrantKey(number uint32, realm string, id [16]byte) (key [Size]byte, ok bool) {
	ok = s.derive("grants", number, realm, id, key[:])
	return key, ok
}

// derive fills to with a key for a purpose, and reports whether there is a secret of the number.
func (s Secrets) derive(purpose string, number uint32, realm string, id [16]byte, to []byte) bool {
	for i := range s.list {
		if s.list[i].number != number {
			continue
		}
		info := fmt.Sprintf("coppice %s of realm %s %x, key %d", purpose, realm, id, number)
		b, err := hkdf.Key(sha256.New, s.list[i].value[:], nil, info, len(to))
		if err != nil {
			panic(err) // HKDF fails only for keys of more than 255 hashes
		}
		copy(to, b)
		return true
	}
	return false
}

// Parse reads secrets, one on each line: its number and its value in hexadecimal. It
// ignores empty lines and lines that begin with #.
func Parse(text []byte) (s Secrets, err error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		left, right, _ := strings.Cut(line, " ")
		number, err := strconv.ParseUint(left, 10, 32)
		if err != nil || number == 0 {
			return Secrets{}, fmt.Errorf("%w: a line must begin with the number of its secret, which is 1 or more", ErrMalformed)
		}
		value, err := hex.DecodeString(strings.TrimSpace(right))
		if err != nil || len(value) != Size {
			return Secrets{}, fmt.Errorf("%w: secret %d must be %d hexadecimal digits", ErrMalformed, number, 2*Size)
		}
		if uint32(number) <= s.Newest() {
			return Secrets{}, fmt.Errorf("%w: secret %d follows secret %d; numbers must ascend", ErrMalformed, number, s.Newest())
		}
		s.list = append(s.list, numbered{uint32(number), [Size]byte(value)})
	}
	if len(s.list) == 0 {
		return s, fmt.Errorf("%w: there is none", ErrMalformed)
	}
	return s, lines.Err()
}

// Format returns what Parse reads.
func (s Secrets) Format() []byte {
	b := []byte("# The secret of a Coppice installation: graph services authenticate their logs with it.\n# Keep it, and keep it secret.\n")
	for _, n := range s.list {
		b = fmt.Appendf(b, "%d %x\n", n.number, n.value)
	}
	return b
}

// String returns a text without the secrets, so that logs do not reveal them.
func (s Secrets) String() string { return fmt.Sprintf("%d secrets", len(s.list)) }

// Load reads a file. It fails if users other than the owner and the group may read it.
func Load(file string) (Secrets, error) {
	info, err := os.Stat(file)
	if err != nil {
		return Secrets{}, fmt.Errorf("secret: %w", err)
	}
	if info.Mode().Perm()&0o007 != 0 {
		return Secrets{}, fmt.Errorf("secret: %s has mode %04o and must have 0600: every user of this machine can read it", file, info.Mode().Perm())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return Secrets{}, fmt.Errorf("secret: %w", err)
	}
	s, err := Parse(text)
	if err != nil {
		return s, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

// ErrLost is returned by LoadOrDraw if there is no file and a secret was used before.
var ErrLost = errors.New("put the file back from the backup: without it no graph service can read the log; " +
	"if the secret is lost, restore each realm from its archive into another directory with 'coppice realm restore'")

// LoadOrDraw is Load. If there is no file, it generates a secret and writes the file with
// mode 0600. It does neither, and returns ErrLost, if the directory of the file has other files
// that were written with a secret: those that match one of the patterns of fs.Glob.
func LoadOrDraw(file string, written ...string) (Secrets, error) {
	s, err := Load(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	dir := filepath.Dir(file)
	for _, pattern := range written {
		found, err := fs.Glob(os.DirFS(dir), pattern)
		if err != nil {
			return s, err
		}
		if len(found) > 0 {
			return s, fmt.Errorf("%s does not exist, and %s was written with a secret: %w", file, filepath.Join(dir, found[0]), ErrLost)
		}
	}
	s = Secrets{}.Draw()
	err = Save(file, s)
	if errors.Is(err, fs.ErrExist) { // another process was first
		return Load(file)
	}
	return s, err
}

// Save writes a new file with mode 0600, atomically. It fails with fs.ErrExist if the file
// exists.
func Save(file string, s Secrets) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("secret: %w", err)
	}
	draft, err := write(file, s)
	if err != nil {
		return fmt.Errorf("secret: %w", err)
	}
	err = os.Link(draft, file) // unlike Rename, Link fails if the file exists
	if err := errors.Join(err, os.Remove(draft)); err != nil {
		return fmt.Errorf("secret: %w", err)
	}
	return nil
}

// Replace replaces the secrets in a file, atomically.
func Replace(file string, s Secrets) error {
	draft, err := write(file, s)
	if err == nil {
		err = os.Rename(draft, file)
	}
	if err != nil {
		return fmt.Errorf("secret: %w", err)
	}
	return nil
}

// write writes and syncs a new file in the directory of another.
func write(file string, s Secrets) (draft string, err error) {
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*") // of mode 0600
	if err != nil {
		return "", err
	}
	_, err = f.Write(s.Format())
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), err
}
