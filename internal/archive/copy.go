package archive

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/coppice-gc/coppice/internal/segment"
)

// Copied is what Copy has done.
type Copied struct {
	Copied  int   // entries
	Bytes   int64 // in them
	Present int   // entries that were there already
}

// Copy copies entries of a list that src.List has returned and that dst does not have. Segments and snapshots are
// verified while they are copied: one that is damaged is not stored, and ends the copy. After
// a failure call it again: it continues. progress is called with the bytes that are done
// since its last call.
func Copy(ctx context.Context, dst, src Store, entries []Entry, check SnapshotCheck, progress func(bytes int64)) (done Copied, err error) {
	present := map[string]int64{}
	for e, err := range dst.List(ctx, "") {
		if err != nil {
			return done, err
		}
		present[e.Name] = e.Size
	}
	for _, e := range entries {
		size, there := present[e.Name]
		if !there {
			err := copyEntry(ctx, dst, src, e, check, progress)
			if err == nil {
				done.Copied++
				done.Bytes += e.Size
				continue
			}
			if !errors.Is(err, ErrExists) { // another copy stored it meanwhile
				return done, err
			}
			size = e.Size
		}
		if size != e.Size {
			return done, fmt.Errorf("entry %s has %d bytes in %s and %d in %s: verify both archives, and delete the wrong entry", e.Name, e.Size, src, size, dst)
		}
		done.Present++
		progress(e.Size)
	}
	return done, nil
}

func copyEntry(ctx context.Context, dst, src Store, e Entry, check SnapshotCheck, progress func(int64)) (err error) {
	in, err := src.Open(ctx, e.Name, 0, e.Size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	var content io.Reader = &counted{in: in, progress: progress}
	if name, ok := ParseName(e.Name); ok && (name.Kind == Segment || name.Kind == Snapshot) {
		verified := verifyWhileRead(content, e.Size, func(in io.Reader) error {
			if name.Kind == Snapshot {
				_, err := check(ctx, in, name)
				return err
			}
			info, err := segment.Verify(in)
			if err == nil {
				err = name.check(info)
			}
			return err
		}, name)
		defer verified.stop()
		content = verified
	}
	return dst.Put(ctx, e.Name, content, e.Size)
}

// verifying is the content of an entry. If the entry is damaged, reading fails before its last
// bytes.
type verifying struct {
	in     io.Reader
	left   int64
	to     *io.PipeWriter
	result chan error // of verify, which reads what was read
}

func verifyWhileRead(in io.Reader, size int64, verify func(io.Reader) error, name Name) *verifying {
	from, to := io.Pipe()
	v := &verifying{in: in, left: size, to: to, result: make(chan error, 1)}
	go func() {
		err := verify(from)
		if err != nil {
			err = fmt.Errorf("entry %s: %w", name, err)
		}
		v.result <- err
		_ = from.CloseWithError(err) // it never fails
	}()
	return v
}

// Read implements io.Reader.
func (v *verifying) Read(b []byte) (n int, err error) {
	n, err = v.in.Read(b[:min(int64(len(b)), v.left)])
	if n > 0 {
		if _, failed := v.to.Write(b[:n]); failed != nil {
			return 0, failed
		}
	}
	if v.left -= int64(n); v.left > 0 || n == 0 {
		return n, err
	}
	_ = v.to.Close()
	if err := <-v.result; err != nil {
		return 0, err
	}
	return n, nil
}

// stop ends verify.
func (v *verifying) stop() { _ = v.to.CloseWithError(io.ErrUnexpectedEOF) }
