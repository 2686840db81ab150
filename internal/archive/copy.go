package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/coppice-gc/coppice/internal/segment"
)

// Copied is what Copy has done.
type Copied struct {
	Copied  int   // entries
	Bytes   int64 // in them
	Present int   // entries that were there already
	Others  int   // files that are no entries of a realm, and are not copied
	// Problems are the entries that were left out, in the order of the list.
	Problems []Problem
}

// Copy copies entries of a list that src.List has returned and that dst does not have. What is read is verified
// before it is stored. Manifests of backups are copied last, and only if nothing was left out. Other files that are no entries of a realm are not copied: see IsOfRealm. An entry is left out, and is in Copied.Problems, if it is damaged or was deleted meanwhile, if src
// cannot read it, if dst has one of another size, or if it is the record of a snapshot that was left out. The
// error is a failure of dst, or of src at several entries in a row; after it, call Copy again: it continues. progress is
// called with the bytes that are done since its last call.
func Copy(ctx context.Context, dst, src Store, entries []Entry, check SnapshotCheck, progress func(bytes int64)) (Copied, error) {
	c := copying{dst: dst, src: src, check: check, progress: progress, stored: map[string]int64{}, problems: map[string]Problem{}}
	for e, err := range dst.List(ctx, "") {
		if err != nil {
			return c.done, err
		}
		c.stored[e.Name] = e.Size
	}
	var backups []Entry
	for _, e := range entries {
		switch {
		case IsOfRealm(e.Name):
		case IsBackup(e.Name):
			backups = append(backups, e)
			continue
		default:
			c.done.Others++
			continue
		}
		problem, err := c.entry(ctx, e)
		if err != nil {
			return c.done, err
		}
		if problem != nil {
			c.problems[e.Name] = *problem
			c.done.Problems = append(c.done.Problems, *problem)
		}
	}
	if err := c.failures.end(); err != nil {
		return c.done, err
	}
	return c.done, c.backups(ctx, backups)
}

// backups copies manifests of backups, unless an entry was left out that they may need.
func (c *copying) backups(ctx context.Context, entries []Entry) error {
	incomplete := len(c.done.Problems) > 0
	for _, e := range entries {
		problem := &Problem{e.Name, ProblemGone, errors.New("it is the manifest of a backup, which may need an entry that was not copied")}
		if !incomplete {
			var err error
			if problem, err = c.entry(ctx, e); err != nil {
				return err
			}
		}
		if problem != nil {
			c.done.Problems = append(c.done.Problems, *problem)
		}
	}
	return c.failures.end()
}

// copying is the work of Copy.
type copying struct {
	dst, src Store
	check    SnapshotCheck
	progress func(int64)
	stored   map[string]int64   // sizes of the entries of dst
	problems map[string]Problem // of the entries that were left out
	failures failures           // of src
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
		return &Problem{e.Name, ProblemConflict, fmt.Errorf("it has %d bytes in %s and %d in %s: verify both archives, and delete the wrong entry", e.Size, c.src, size, c.dst)}, nil
	}
	c.done.Present++
	c.progress(e.Size)
	return nil, nil
}

// put is entry for one that dst does not have. The error may wrap ErrExists.
func (c *copying) put(ctx context.Context, e Entry) (problem *Problem, err error) {
	name, known := ParseName(e.Name)
	if known && name.Kind == Verified {
		if p := c.withoutSnapshot(e.Name, name); p != nil {
			return p, nil
		}
		if _, err := ReadVerification(ctx, c.src, name.Realm, name.Last); err != nil {
			return c.failures.at(ctx, e.Name, err)
		}
	}
	if IsBackup(e.Name) {
		if _, err := ReadBackup(ctx, c.src, e); err != nil {
			return c.failures.at(ctx, e.Name, err)
		}
	}
	in, err := open(ctx, c.src, e)
	if err != nil {
		return c.failures.at(ctx, e.Name, err)
	}
	content := &verifying{in: &counted{in: in, progress: c.progress}, left: e.Size}
	if known && (name.Kind == Segment || name.Kind == Snapshot) {
		content.begin(func(in io.Reader) error { return c.verify(ctx, in, name) })
	}
	err = c.dst.Put(ctx, e.Name, content, e.Size)
	failed := content.end()
	_ = in.Close() // what was read of it is complete, or has failed
	if ctx.Err() != nil || errors.Is(err, ErrExists) {
		return nil, err
	}
	if failed != nil { // otherwise dst has failed
		return c.failures.at(ctx, e.Name, failed)
	}
	c.failures.read()
	return nil, err
}

// withoutSnapshot returns the problem of a record whose snapshot dst does not have.
func (c *copying) withoutSnapshot(record string, name Name) *Problem {
	snapshot := SnapshotName(name.Realm, name.Last).String()
	if p, ok := c.problems[snapshot]; ok {
		return &Problem{record, p.Kind, fmt.Errorf("its snapshot was not copied: %w", p.Err)}
	}
	if _, there := c.stored[snapshot]; !there {
		return &Problem{record, ProblemGone, errors.New("it is the record of a snapshot that the archive does not have")}
	}
	return nil
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
// fails before its last bytes. A store may go on to read it when its Put has returned, until end.
type verifying struct {
	mu     sync.Mutex
	in     io.Reader
	left   int64
	to     *io.PipeWriter // nil if nothing is verified
	result chan error     // of the verification, which reads what was read
	ended  bool
	err    error // with which reading failed, other than io.EOF
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

// errEnded is the error of reading an entry that is not stored any more.
var errEnded = errors.New("the entry is not stored any more")

// Read implements io.Reader.
func (v *verifying) Read(b []byte) (n int, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.ended:
		return 0, errEnded
	case v.left == 0:
		return 0, io.EOF
	}
	n, err = v.in.Read(b[:min(int64(len(b)), v.left)])
	v.left -= int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		v.err = err
	}
	if v.to == nil || n == 0 {
		return n, err
	}
	if _, failed := v.to.Write(b[:n]); failed != nil {
		v.err = failed
		return 0, failed
	}
	if v.left > 0 {
		return n, err
	}
	_ = v.to.Close()
	if failed := <-v.result; failed != nil {
		v.err = failed
		return 0, failed
	}
	return n, nil
}

// end ends the verification, and returns the error with which reading has failed.
func (v *verifying) end() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ended = true
	if v.to != nil {
		_ = v.to.CloseWithError(io.ErrUnexpectedEOF)
	}
	return v.err
}
