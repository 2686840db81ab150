package archivetest

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"syscall"

	"github.com/coppice-gc/coppice/internal/archive"
)

// Hooked is a store whose calls a test watches, delays, refuses or changes. Hooks that are nil do nothing.
// They are called concurrently if the store is.
type Hooked struct {
	archive.Store
	// Before is called before each call. The call fails with its error, and then has no effect.
	Before func(context.Context, Call) error
	// Putting and Reading replace the content that is put, and the reader that Open returns.
	Putting func(Call, io.Reader) io.Reader
	Reading func(Call, io.ReadCloser) io.ReadCloser
}

// Op is a method of a store.
type Op string

// The methods.
const (
	Put    Op = "put"
	Open   Op = "open"
	List   Op = "list"
	Delete Op = "delete"
)

// Call is a call of a store.
type Call struct {
	Op             Op
	Name           string       // of the entry; of a list, the prefix
	Entry          archive.Name // what the name says
	Offset, Length int64        // of what is opened
}

// Of reports whether the call is of a method, and about an entry of a kind.
func (c Call) Of(op Op, kind archive.Kind) bool { return c.Op == op && c.Entry.Kind == kind }

// Unreadable is Before of a store on a disk that does not give some of its entries.
func Unreadable(names ...string) func(context.Context, Call) error {
	return func(_ context.Context, c Call) error {
		if c.Op == Open && slices.Contains(names, c.Name) {
			return fmt.Errorf("%s: %w", c.Name, syscall.EIO)
		}
		return nil
	}
}

func (s *Hooked) before(ctx context.Context, c Call) (Call, error) {
	c.Entry, _ = archive.ParseName(c.Name)
	if s.Before == nil {
		return c, nil
	}
	return c, s.Before(ctx, c)
}

// Put implements archive.Store.
func (s *Hooked) Put(ctx context.Context, name string, content io.Reader, size int64) error {
	c, err := s.before(ctx, Call{Op: Put, Name: name})
	if err != nil {
		return err
	}
	if s.Putting != nil {
		content = s.Putting(c, content)
	}
	return s.Store.Put(ctx, name, content, size)
}

// Open implements archive.Store.
func (s *Hooked) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	c, err := s.before(ctx, Call{Op: Open, Name: name, Offset: offset, Length: length})
	if err != nil {
		return nil, err
	}
	in, err := s.Store.Open(ctx, name, offset, length)
	if err == nil && s.Reading != nil {
		in = s.Reading(c, in)
	}
	return in, err
}

// List implements archive.Store.
func (s *Hooked) List(ctx context.Context, prefix string) iter.Seq2[archive.Entry, error] {
	if _, err := s.before(ctx, Call{Op: List, Name: prefix}); err != nil {
		return func(yield func(archive.Entry, error) bool) { yield(archive.Entry{}, err) }
	}
	return s.Store.List(ctx, prefix)
}

// Delete implements archive.Store.
func (s *Hooked) Delete(ctx context.Context, name string) error {
	if _, err := s.before(ctx, Call{Op: Delete, Name: name}); err != nil {
		return err
	}
	return s.Store.Delete(ctx, name)
}
