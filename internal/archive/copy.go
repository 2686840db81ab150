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
	// Problems are the entries that were left out, in the order of the list.
	Problems []Problem
}

// Copy copies entries of a list that src.List has returned and that dst does not have. What is read is verified
// before it is stored. An entry is left out, and is in Copied.Problems, if it is damaged or was deleted meanwhile, if src
// cannot read it, if dst has one of another size, or if it is the record of a snapshot that was left out. The
// error is a failure of dst, or of src at several entries in a row; after it, call Copy again: it continues. progress is
// called with the bytes that are done since its last call.
func Copy(ctx context.Context, dst, src Store, entries []Entry, check SnapshotCheck, progress func(bytes int64)) (Copied, error) {
	c := copying{dst: dst, src: src, check: check, progress: progress, stored: map[string]int64{}, unusable: map[string]bool{}}
	for e, err := range dst.List(ctx, "") {
		if err != nil {
			return c.done, err
		}
		c.stored[e.Name] = e.Size
	}
	for _, e := range entries {
		problem, err := c.entry(ctx, e)
		if err != nil {
			return c.done, err
		}
		if problem != nil {
			problem.Name = e.Name
			c.unusable[e.Name] = true
			c.done.Problems = append(c.done.Problems, *problem)
		}
	}
	return c.done, c.failures.end()
}

// copying is the work of Copy.
type copying struct {
	dst, src Store
	check    SnapshotCheck
	progress func(int64)
	stored   map[string]int64 // sizes of the entries of dst
	unusable map[string]bool  // the entries that were left out
	failures failures         // of src
	done     Copied
}

// entry copies an entry. problem says why it was left out; err ends the copy.
func (c *copying) entry(ctx context.Context, e Entry) (problem *Problem, err error) {
	size, there := c.stored[e.Name]
	if !there {
		if problem, err = c.put(ctx, e); problem == nil && err == nil {
			c.stored[e.Name] = e.Size
			c.done.Copied++
			c.done.Bytes += e.Size
			return nil, nil
		}
		if !errors.Is(err, ErrExists) {
			return problem, err
		}
		size = e.Size // another copy stored it meanwhile
	}
	if size != e.Size {
		return &Problem{Err: fmt.Errorf("it has %d bytes in %s and %d in %s: verify both archives, and delete the wrong entry", e.Size, c.src, size, c.dst)}, nil
	}
	c.done.Present++
	c.progress(e.Size)
	return nil, nil
}

// put is entry for one that dst does not have. The error may wrap ErrExists.
func (c *copying) put(ctx context.Context, e Entry) (problem *Problem, err error) {
	name, known := ParseName(e.Name)
	if known && name.Kind == Verified {
		snapshot := SnapshotName(name.Realm, name.Last).String()
		if _, there := c.stored[snapshot]; !there || c.unusable[snapshot] {
			return &Problem{Err: fmt.Errorf("it is the record of a snapshot that %s does not have", c.dst)}, nil
		}
		if _, err := ReadVerification(ctx, c.src, name.Realm, name.Last); err != nil {
			return c.failures.at(ctx, err)
		}
	}
	in, err := c.src.Open(ctx, e.Name, 0, e.Size)
	if err != nil {
		return c.failures.at(ctx, err)
	}
	content := &verifying{in: &counted{in: in, progress: c.progress}, left: e.Size}
	if known && (name.Kind == Segment || name.Kind == Snapshot) {
		content.begin(func(in io.Reader) error { return c.verify(ctx, in, name) })
		defer content.stop()
	}
	err = errors.Join(c.dst.Put(ctx, e.Name, content, e.Size), in.Close())
	if ctx.Err() != nil || errors.Is(err, ErrExists) {
		return nil, err
	}
	if content.err != nil { // otherwise dst has failed
		return c.failures.at(ctx, content.err)
	}
	c.failures.read()
	return nil, err
}

// verify reads a segment or a snapshot to its end.
func (c *copying) verify(ctx context.Context, in io.Reader, name Name) error {
	if name.Kind == Snapshot {
		_, err := c.check(ctx, in, name)
		return err
	}
	info, err := segment.Verify(in)
	if err == nil {
		err = name.check(info)
	}
	return err
}

// verifying is the content of an entry, which may be verified while it is read: then, if the entry is damaged, reading
// fails before its last bytes.
type verifying struct {
	in     io.Reader
	left   int64
	to     *io.PipeWriter // nil if nothing is verified
	result chan error     // of the verification, which reads what was read
	err    error          // with which reading failed, other than io.EOF
}

// begin verifies what is read from now on.
func (v *verifying) begin(verify func(io.Reader) error) {
	from, to := io.Pipe()
	v.to, v.result = to, make(chan error, 1)
	go func() {
		err := verify(from)
		if err != nil {
			err = &unusableError{err}
		}
		v.result <- err
		_ = from.CloseWithError(err) // it never fails
	}()
}

// Read implements io.Reader.
func (v *verifying) Read(b []byte) (n int, err error) {
	n, err = v.read(b[:min(int64(len(b)), v.left)])
	if err != nil && !errors.Is(err, io.EOF) {
		v.err = err
	}
	return n, err
}

func (v *verifying) read(b []byte) (n int, err error) {
	n, err = v.in.Read(b)
	if v.to == nil {
		return n, err
	}
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

// stop ends the verification.
func (v *verifying) stop() { _ = v.to.CloseWithError(io.ErrUnexpectedEOF) }
