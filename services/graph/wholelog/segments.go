package wholelog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/segment"
)

// list returns the segments of the realm, sorted. It lists them if that was not done for a
// while, or if again is set.
func (l *Log) list(ctx context.Context, again bool) ([]archive.Item, error) {
	if l.store == nil {
		return nil, nil
	}
	realm, err := l.RealmID(ctx)
	if err != nil || realm == [16]byte{} {
		return nil, err
	}
	l.mu.Lock()
	segments, received := l.segments, l.received
	l.mu.Unlock()
	switch {
	case again:
		for called := time.Now(); ; {
			list, err := l.listOnce(ctx, realm)
			if err != nil || !list.begun.Before(called) {
				return list.segments, err
			}
		}
	case received.IsZero():
		list, err := l.listOnce(ctx, realm)
		return list.segments, err
	case time.Since(received) < listAgain:
		return segments, nil
	}
	waiting, cancel := context.WithTimeout(ctx, listWait)
	defer cancel()
	list, err := l.listOnce(waiting, realm)
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return segments, nil
	}
	return list.segments, err
}

// relisting calls read, and repeats it with a new list if a segment is gone that was in the list: it was pruned or merged
// with others since. It does so too after each error of which passes is true: the next list lacks the segment.
func (l *Log) relisting(ctx context.Context, passes func(error) bool, read func() error) error {
	for {
		l.mu.Lock()
		before := l.segments
		l.mu.Unlock()
		err := read()
		if passes(err) && ctx.Err() == nil {
			continue
		}
		if !errors.Is(err, archive.ErrNotFound) {
			return err
		}
		if listed, failed := l.list(ctx, true); failed != nil || slices.Equal(listed, before) {
			return errors.Join(err, failed)
		}
	}
}

// segmentList is a list of segments, and when it was begun.
type segmentList struct {
	segments []archive.Item
	begun    time.Time
}

// listOnce lists the segments, or waits for a list that was begun before. It waits no longer than ctx: the
// list goes on, for the calls that follow.
func (l *Log) listOnce(ctx context.Context, realm [16]byte) (segmentList, error) {
	done := l.listing.DoChan("", func() (any, error) {
		begun := time.Now()
		all, err := archive.Segments(l.ctx, l.store, realm)
		if err != nil {
			return segmentList{}, err
		}
		list := segmentList{archive.WithoutOverlap(l.undamaged(all)), begun}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.segments, l.listed, l.received = list.segments, begun, time.Now()
		return list, nil
	})
	select {
	case <-ctx.Done():
		return segmentList{}, fmt.Errorf("archive %s: it does not list its segments: %w", l.store, ctx.Err())
	case got := <-done:
		return got.Val.(segmentList), got.Err
	}
}

// reader opens a segment, or returns it if it is open. It waits for the archive no longer than
// ctx, and without the lock: others read what is open, or the stream.
func (l *Log) reader(ctx context.Context, item archive.Item) (*segment.Reader, error) {
	if r := l.isOpen(item.Name); r != nil {
		return r, nil
	}
	done := l.opening.DoChan(item.String(), func() (any, error) {
		r, err := archive.OpenSegment(l.ctx, l.store, item.Entry)
		if err != nil {
			return nil, l.wrap(item, err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.open) >= maxOpen {
			l.open = slices.Delete(l.open, 0, 1)
		}
		l.open = append(l.open, opened{item.Name, r})
		return r, nil
	})
	select {
	case <-ctx.Done():
		return nil, &UnavailableError{fmt.Errorf("archive %s: segment %s: it does not answer: %w", l.store, item.Entry.Name, ctx.Err())}
	case got := <-done:
		if got.Err != nil {
			return nil, got.Err
		}
		return got.Val.(*segment.Reader), nil
	}
}

// isOpen returns the reader of a segment that is open, nil for another one.
func (l *Log) isOpen(name archive.Name) *segment.Reader {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.open, func(o opened) bool { return o.name == name })
	if i < 0 {
		return nil
	}
	o := l.open[i]
	l.open = append(slices.Delete(l.open, i, i+1), o)
	return o.Reader
}
