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

// ErrStalled is wrapped by the error of a call of a Limited that made no progress in time.
var ErrStalled = errors.New("the archive does not answer")

// maxStalled is the maximum number of calls that may hang in a store that ignores the end of
// its context. While there are as many, further calls fail at once.
const maxStalled = 4

// Limited is a store whose calls end when they make no progress for a time, also if the store
// ignores the end of its context, as a file system on a network may. Its readers return all
// bytes that were asked for, or an error: see limitedReader. Package stores opens such stores.
type Limited struct {
	url     string
	stall   time.Duration
	open    func(context.Context) (Store, error)
	opening chan struct{}         // has an element while a call opens the store
	store   atomic.Pointer[Store] // nil until it is open
	stalled atomic.Int32          // calls that were given up, and have not returned
}

var _ Store = (*Limited)(nil)

// NewLimited returns the store that open returns, which is called when the store is used for the
// first time. While that fails, each use fails and the next one tries again.
func NewLimited(url string, stall time.Duration, open func(context.Context) (Store, error)) *Limited {
	return &Limited{url: url, stall: stall, open: open, opening: make(chan struct{}, 1)}
}

// Limit returns a store that is open as a Limited.
func Limit(store Store, stall time.Duration) *Limited {
	return NewLimited(store.String(), stall, func(context.Context) (Store, error) { return store, nil })
}

// Opened opens the store, if it is not open.
func (s *Limited) Opened(ctx context.Context) error {
	return s.call(ctx, "open", func(context.Context, Store, *progress) error { return nil })
}

// opened returns the store, and opens it if it is not open.
func (s *Limited) opened(ctx context.Context) (Store, error) {
	if store := s.store.Load(); store != nil {
		return *store, nil
	}
	select {
	case s.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("archive %s: it is being opened: %w", s.url, ctx.Err())
	}
	defer func() { <-s.opening }()
	if store := s.store.Load(); store != nil {
		return *store, nil
	}
	store, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	s.store.Store(&store)
	return store, nil
}

// progress is that of a call.
type progress struct {
	moved   atomic.Int64
	waiting atomic.Bool // for the caller, and not for the store
}

// call calls do with the store, and returns its error. If do makes no progress for s.stall, or does not
// return soon after ctx has ended, the error wraps ErrStalled, and do goes on in its goroutine. It
// must not use anything that the caller uses after call has returned.
func (s *Limited) call(ctx context.Context, what string, do func(context.Context, Store, *progress) error) error {
	if n := s.stalled.Load(); n >= maxStalled {
		return fmt.Errorf("archive %s: %s: %w: %d calls still hang; restart this process when the store works again", s.url, what, ErrStalled, n)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done, p := make(chan error, 1), &progress{}
	go func() {
		store, err := s.opened(ctx)
		if err == nil {
			err = do(ctx, store, p)
		}
		done <- err
	}()
	timer := time.NewTicker(s.stall)
	defer timer.Stop()
	why := fmt.Errorf("no progress for %v", s.stall)
	for last := int64(0); ; {
		select {
		case err := <-done:
			return err
		case <-timer.C:
			if is := p.moved.Load(); is != last || p.waiting.Load() {
				last = is
				continue
			}
		case <-ctx.Done():
			select { // most stores return at once
			case err := <-done:
				return err
			case <-time.After(min(s.stall, time.Second)):
				why = ctx.Err()
			}
		}
		s.stalled.Add(1)
		go func() {
			<-done //nolint:errcheck // the call was given up
			s.stalled.Add(-1)
		}()
		return fmt.Errorf("archive %s: %s: %w: %w", s.url, what, ErrStalled, why)
	}
}

// String implements Store.
func (s *Limited) String() string { return s.url }

// Put implements Store. The time that content takes does not count.
func (s *Limited) Put(ctx context.Context, name string, content io.Reader, size int64) error {
	given := &givenContent{in: content}
	defer given.ended.Store(true)
	return s.call(ctx, "put "+name, func(ctx context.Context, store Store, p *progress) error {
		given.progress = p
		return store.Put(ctx, name, given, size)
	})
}

// givenContent is the content of a Put. It fails when Put has returned to its caller.
type givenContent struct {
	in io.Reader
	*progress
	ended atomic.Bool
}

// Read implements io.Reader.
func (c *givenContent) Read(b []byte) (int, error) {
	if c.ended.Load() {
		return 0, ErrStalled
	}
	c.waiting.Store(true)
	n, err := c.in.Read(b)
	c.moved.Add(1)
	c.waiting.Store(false)
	return n, err
}

// Delete implements Store.
func (s *Limited) Delete(ctx context.Context, name string) error {
	return s.call(ctx, "delete "+name, func(ctx context.Context, store Store, _ *progress) error { return store.Delete(ctx, name) })
}

// List implements Store. It collects the entries before it returns the first one.
func (s *Limited) List(ctx context.Context, prefix string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		listed := make(chan []Entry, 1)
		err := s.call(ctx, "list "+prefix, func(ctx context.Context, store Store, p *progress) error {
			var entries []Entry
			for e, err := range store.List(ctx, prefix) {
				if err != nil {
					return err
				}
				p.moved.Add(1)
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
