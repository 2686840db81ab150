package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
)

var (
	// ErrExists is wrapped by Store.Put if there is an entry of this name.
	ErrExists = errors.New("the archive has an entry of this name already, and entries are never replaced")
	// ErrNotFound is wrapped by Store.Open if there is no entry of this name.
	ErrNotFound = errors.New("the archive has no such entry")
	// ErrRange is wrapped by Store.Open if the entry does not have the bytes.
	ErrRange = errors.New("the entry does not have these bytes")
)

// Store has immutable entries. It is safe for concurrent use, also by several processes.
// Its errors name the entry and the store.
type Store interface {
	// Put stores an entry with the next size bytes of content, at least one, unless there
	// is one of this name: then the error wraps ErrExists, and the entry stays as it is. On success
	// the entry is durable. Of several concurrent calls with one name, one succeeds. If
	// content fails or ends early, nothing is stored. After any other error the entry is
	// stored completely or not at all: call Put again.
	Put(ctx context.Context, name string, content io.Reader, size int64) error
	// Open returns a reader of length bytes from an offset. The caller closes it. The
	// error, or that of the reader, wraps ErrNotFound, or ErrRange if the entry
	// ends before, or if length is not positive.
	Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error)
	// List iterates over the entries whose names begin with a prefix, in the order of
	// their names' bytes. If it fails, the last element is an error. It may omit or
	// return entries that are put or deleted meanwhile.
	List(ctx context.Context, prefix string) iter.Seq2[Entry, error]
	// Delete deletes an entry. It succeeds if there is none.
	Delete(ctx context.Context, name string) error
	// String returns the URL of the store, without credentials.
	String() string
}

// Entry is an entry of a store.
type Entry struct {
	Name string
	Size int64 // in bytes
}

// MaxName is the length of the longest name of an entry, in bytes.
const MaxName = 200

// CheckName returns an error unless name can be that of an entry: parts of lower-case
// letters, digits, '.', '_' and '-', which do not begin with '.', separated by '/'. Such a name is valid in every
// store, and on every file system.
func CheckName(name string) error {
	if len(name) > MaxName {
		return fmt.Errorf("name of an entry: it has %d bytes, more than %d", len(name), MaxName)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789._-") != "" {
			return fmt.Errorf("name of an entry: %q: its parts consist of a-z, 0-9, '.', '_' and '-', and do not begin with '.'", name)
		}
	}
	return nil
}

// CheckPut returns an error unless an entry of this name and size can be put.
func CheckPut(name string, size int64) error {
	if size <= 0 {
		return fmt.Errorf("entry %s: an entry has at least one byte, not %d", name, size)
	}
	return CheckName(name)
}

// CheckRange returns an error that wraps ErrRange unless an entry of a size has a range.
func CheckRange(size, offset, length int64) error {
	if offset < 0 || length <= 0 || offset > size || length > size-offset {
		return fmt.Errorf("%w: %d bytes at offset %d of %d", ErrRange, length, offset, size)
	}
	return nil
}

// Content is the content of a Put. It fails if there are fewer bytes than the size. A
// store reads it to know whether a failure is one of the content.
type Content struct {
	In   io.Reader
	Left int64 // bytes that are still to be read
	Err  error // the first failure
}

// Read implements io.Reader. It returns io.EOF after the last byte.
func (c *Content) Read(b []byte) (n int, err error) {
	if c.Err != nil {
		return 0, c.Err
	}
	if c.Left == 0 {
		return 0, io.EOF
	}
	n, err = c.In.Read(b[:min(int64(len(b)), c.Left)])
	c.Left -= int64(n)
	switch {
	case c.Left == 0:
		return n, nil
	case errors.Is(err, io.EOF):
		err = fmt.Errorf("the content ends %d bytes early: %w", c.Left, io.ErrUnexpectedEOF)
	}
	c.Err = err
	return n, err
}
