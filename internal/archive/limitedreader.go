package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Open implements Store.
func (s *Limited) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	r := &limitedReader{s: s, name: name, offset: offset, left: length}
	// The context of the entry must outlive this call: the reader uses it.
	r.ctx, r.cancel = context.WithCancel(ctx)
	if err := r.open(); err != nil {
		r.cancel()
		return nil, err
	}
	return r, nil
}

// limitedReader reads an entry. A store, or a proxy before it, may end a read early, which must not look as
// if the entry ended there: it would seem damaged. Then the rest is opened again. It is for one goroutine.
type limitedReader struct {
	s            *Limited
	name         string
	offset, left int64           // of what is still to be read from in
	ctx          context.Context //nolint:containedctx // io.Reader has none
	cancel       context.CancelFunc
	in           io.ReadCloser // nil if it was closed
	failures     int           // since the last byte
	room         []byte
	unread       []byte // of room
	err          error  // what follows unread
}

const (
	// readAhead is the size in bytes of the reads of an entry.
	readAhead = 256 << 10
	// maxFailures is the number of failures to read one byte with which the reader fails.
	maxFailures = 4
	// failurePause is the pause before an entry is opened again, times the number of failures before
	// the last one.
	failurePause = 100 * time.Millisecond
)

// Read implements io.Reader.
func (r *limitedReader) Read(b []byte) (n int, err error) {
	for len(b) > 0 && len(r.unread) == 0 && r.err == nil {
		r.fill()
	}
	n = copy(b, r.unread)
	r.unread = r.unread[n:]
	if n == 0 && len(b) > 0 {
		err = r.err
	}
	return n, err
}

// fill sets unread or err, or both, or counts a failure.
func (r *limitedReader) fill() {
	if r.left == 0 {
		r.err = io.EOF
		return
	}
	if r.room == nil {
		r.room = make([]byte, min(readAhead, r.left))
	}
	err := r.open()
	if err == nil {
		err = r.read()
	}
	switch {
	case err == nil || r.left == 0 && errors.Is(err, io.EOF):
		return
	case r.ctx.Err() != nil, IsDamaged(err), errors.Is(err, ErrStalled), errors.Is(err, ErrNotFound), errors.Is(err, ErrRange):
		r.err = err
		return
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = fmt.Errorf("archive %s: read %s: the store ended the read %d bytes early", r.s.url, r.name, r.left)
	}
	if r.failures++; r.failures == maxFailures {
		r.err = err
		return
	}
	_ = r.close() // the entry is opened again
	select {
	case <-time.After(time.Duration(r.failures-1) * failurePause):
	case <-r.ctx.Done():
		r.err = fmt.Errorf("%w: %w", r.ctx.Err(), err)
	}
}

// open opens what is still to be read, if it is not open.
func (r *limitedReader) open() error {
	if r.in != nil {
		return nil
	}
	opened := make(chan io.ReadCloser, 1)
	err := r.s.call(r.ctx, "open "+r.name, func(_ context.Context, store Store, _ *progress) error {
		in, err := store.Open(r.ctx, r.name, r.offset, r.left)
		if err != nil {
			return err
		}
		if r.ctx.Err() != nil { // the call was given up
			return errors.Join(r.ctx.Err(), in.Close())
		}
		opened <- in
		return nil
	})
	if err == nil {
		r.in = <-opened
	}
	return err
}

// read reads into the room, which a call that hangs goes on to use.
func (r *limitedReader) read() error {
	got, in := make(chan int, 1), r.in
	err := r.s.call(r.ctx, "read "+r.name, func(context.Context, Store, *progress) error {
		n, err := in.Read(r.room[:min(int64(len(r.room)), r.left)])
		got <- n
		return err
	})
	select {
	case n := <-got:
		if n > 0 {
			r.failures = 0
		}
		r.unread = r.room[:n]
		r.offset, r.left = r.offset+int64(n), r.left-int64(n)
	default:
	}
	return err
}

// Close implements io.Closer.
func (r *limitedReader) Close() error {
	r.cancel()
	if errors.Is(r.err, ErrStalled) {
		return nil // a call hangs in it
	}
	return r.close()
}

func (r *limitedReader) close() error {
	if r.in == nil {
		return nil
	}
	in := r.in
	r.in = nil
	return r.s.call(context.WithoutCancel(r.ctx), "close "+r.name, func(context.Context, Store, *progress) error { return in.Close() })
}
