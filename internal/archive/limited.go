package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync/atomic"
	"time"
)

// Stall is the time after which a call of a store that makes no progress fails: see Limited.
const Stall = 2 * time.Minute

// ErrStalled is wrapped by the error of a call of a Limited store that made no progress in time.
var ErrStalled = errors.New("the archive does not answer")

// maxStalled is the maximum number of calls that may hang in a store that ignores the end of
// its context. While there are as many, further calls fail at once.
const maxStalled = 4

// Limited returns a store whose calls end when they make no progress for a time, also if the
// store ignores the end of its context, as a file system on a network may. Package stores opens
// such stores.
func Limited(store Store, stall time.Duration) Store {
	return &limited{Store: store, stall: stall}
}

type limited struct {
	Store
	stall   time.Duration
	stalled atomic.Int32 // calls that were given up, and have not returned
}

// wait calls do, which counts its progress in moved, and returns its error. If do makes no progress
// for s.stall, or does not return soon after ctx has ended, the error wraps ErrStalled, and do goes
// on in its goroutine. It must not use anything that the caller uses after wait has returned.
func (s *limited) wait(ctx context.Context, what string, do func(ctx context.Context, moved *atomic.Int64) error) error {
	if n := s.stalled.Load(); n >= maxStalled {
		return fmt.Errorf("archive %s: %s: %w: %d calls still hang; restart this process when the store works again", s.Store, what, ErrStalled, n)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done, moved := make(chan error, 1), &atomic.Int64{}
	go func() { done <- do(ctx, moved) }()
	timer := time.NewTicker(s.stall)
	defer timer.Stop()
	for last := int64(0); ; {
		select {
		case err := <-done:
			return err
		case <-timer.C:
			if is := moved.Load(); is != last {
				last = is
				continue
			}
		case <-ctx.Done():
			select { // most stores return at once
			case err := <-done:
				return err
			case <-time.After(min(s.stall, time.Second)):
			}
		}
		s.stalled.Add(1)
		go func() {
			<-done //nolint:errcheck // the call was given up
			s.stalled.Add(-1)
		}()
		return fmt.Errorf("archive %s: %s: %w: no progress for %v", s.Store, what, ErrStalled, s.stall)
	}
}

// Put implements Store.
func (s *limited) Put(ctx context.Context, name string, content io.Reader, size int64) error {
	return s.wait(ctx, "put "+name, func(ctx context.Context, moved *atomic.Int64) error {
		return s.Store.Put(ctx, name, &moving{content, moved}, size)
	})
}

// moving counts reads.
type moving struct {
	in    io.Reader
	moved *atomic.Int64
}

func (c *moving) Read(b []byte) (int, error) {
	c.moved.Add(1)
	return c.in.Read(b)
}

// Delete implements Store.
func (s *limited) Delete(ctx context.Context, name string) error {
	return s.wait(ctx, "delete "+name, func(ctx context.Context, _ *atomic.Int64) error { return s.Store.Delete(ctx, name) })
}

// List implements Store. It collects the entries before it returns the first one.
func (s *limited) List(ctx context.Context, prefix string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		listed := make(chan []Entry, 1)
		err := s.wait(ctx, "list "+prefix, func(ctx context.Context, moved *atomic.Int64) error {
			var entries []Entry
			for e, err := range s.Store.List(ctx, prefix) {
				if err != nil {
					return err
				}
				moved.Add(1)
				entries = append(entries, e)
			}
			listed <- entries
			return nil
		})
		if err != nil {
			yield(Entry{}, err)
			return
		}
		for _, e := range <-listed {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Open implements Store.
func (s *limited) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	r := &limitedReader{s: s, name: name, size: length}
	// The context of the entry must outlive this call: the reader uses it.
	r.ctx, r.cancel = context.WithCancel(ctx)
	opened := make(chan io.ReadCloser, 1)
	err := s.wait(r.ctx, "open "+name, func(context.Context, *atomic.Int64) error {
		in, err := s.Store.Open(r.ctx, name, offset, length)
		if err == nil {
			opened <- in
		}
		return err
	})
	if err != nil {
		r.cancel()
		return nil, err
	}
	r.in = <-opened
	return r, nil
}

// limitedReader reads an entry. It is for one goroutine.
type limitedReader struct {
	s      *limited
	name   string
	size   int64           // of the range
	ctx    context.Context //nolint:containedctx // io.Reader has none
	cancel context.CancelFunc
	in     io.ReadCloser
	room   []byte
	unread []byte // of room
	err    error  // what follows unread
}

// readAhead is the size in bytes of the reads of an entry.
const readAhead = 256 << 10

func (r *limitedReader) Read(b []byte) (n int, err error) {
	if len(r.unread) == 0 && r.err == nil {
		if r.room == nil {
			r.room = make([]byte, min(readAhead, max(r.size, 1)))
		}
		got := make(chan int, 1)
		r.err = r.s.wait(r.ctx, "read "+r.name, func(context.Context, *atomic.Int64) error {
			n, err := r.in.Read(r.room)
			got <- n
			return err
		})
		select {
		case n := <-got:
			r.unread = r.room[:n]
		default: // it hangs, and owns the room
		}
	}
	n = copy(b, r.unread)
	if r.unread = r.unread[n:]; len(r.unread) == 0 && n == 0 {
		err = r.err
	}
	return n, err
}

// Close implements io.Closer.
func (r *limitedReader) Close() error {
	r.cancel()
	if errors.Is(r.err, ErrStalled) {
		return nil // a call hangs in it
	}
	return r.s.wait(context.WithoutCancel(r.ctx), "close "+r.name, func(context.Context, *atomic.Int64) error { return r.in.Close() })
}
