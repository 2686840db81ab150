package graph

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/codec/commitcodec"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/archiver"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/lease"
)

// ending is the log of a realm that is being deleted, which no process writes any more.
type ending struct {
	name string
	log  *eventlog.Log         // nil if its stream is gone
	end  uint64                // the position of its last message
	last *coppicev1.Checkpoint // its last commit; nil for none
}

// endOf returns the log of a realm that is being deleted. Unless the realm is deleted without
// archive, it fails if the log may have a commit behind the last one that this process can read,
// or has messages and no commit that it can read.
func (s *Service) endOf(ctx context.Context, name string, withoutArchive bool) (e ending, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*requestTimeout)
	defer cancel()
	e.name = name
	e.log, err = eventlog.OpenExisting(ctx, s.js, name, eventlog.NewKeys(s.c.Secrets, name))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return ending{name: name}, nil
	}
	if err != nil {
		return e, err
	}
	last, first, err := e.log.Last(ctx)
	if err != nil {
		return e, err
	}
	e.end = last
	for ; last >= max(first, 1); last-- {
		b, err := e.log.Get(ctx, last)
		if errors.Is(err, eventlog.ErrForeign) || errors.Is(err, eventlog.ErrNotFound) {
			if withoutArchive {
				continue
			}
			if err = e.skips(ctx, last, err); err == nil {
				continue
			}
		}
		if err != nil {
			return e, err
		}
		h, err := commitcodec.ReadHeader(b)
		if err != nil {
			return e, fmt.Errorf("the commit at sequence %d of the log of realm %s: %w", last, name, err)
		}
		e.last = &coppicev1.Checkpoint{RealmId: h.RealmID[:], Sequence: h.Sequence, Position: last}
		return e, nil
	}
	if had, err := e.log.HadMessages(ctx); err != nil || !had || withoutArchive {
		return e, err
	}
	return e, notArchived(fmt.Errorf("log of realm %s: no message up to sequence %d is a commit of the realm", name, e.end))
}

// skips returns nil if no commit is at a position behind the last commit. err is why none can be
// read there.
func (e *ending) skips(ctx context.Context, position uint64, err error) error {
	switch {
	case errors.Is(err, eventlog.ErrOtherSecret):
		return notArchived(&eventlog.KeyError{Realm: e.name, What: fmt.Sprintf("the message at sequence %d is not authentic, and looks like a commit", position)})
	case errors.Is(err, eventlog.ErrForeign):
		return nil
	}
	// The stream denies that messages are deleted. Only a cut removes some, at its beginning.
	_, first, failed := e.log.Last(ctx)
	if failed != nil || position < first {
		return failed
	}
	return notArchived(err)
}

// notArchived returns the error for a log that cannot be archived up to its end.
func notArchived(err error) error {
	return fmt.Errorf("the log is not deleted because it cannot be archived: %w; this is tried again, and --without-archive deletes the realm without its last commits in the archive", err)
}

// unchanged returns an error unless this process has the lease of the realm, and the log is the
// one that has ended, without another message. So a process that was paused deletes no log that
// was created meanwhile, unless the pause is between this check and the next request.
func (s *Service) unchanged(ctx context.Context, l *lease.Lease, e ending) error {
	switch {
	case !l.Holds():
		return errors.New("the lease was lost before the streams were deleted")
	case e.log == nil:
		_, err := s.js.Stream(ctx, bus.LogStream(e.name))
		if err == nil {
			err = fmt.Errorf("stream %s: %w", bus.LogStream(e.name), eventlog.ErrGone)
		}
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
		return err
	}
	end, _, err := e.log.Last(ctx)
	if err == nil && end != e.end {
		err = fmt.Errorf("another process has written the log: it had %d messages, and has %d", e.end, end)
	}
	return err
}

// archiveRest archives the commits of an ended log that the archive lacks. It does nothing if the
// realm is to be deleted without archive, and stops without an error if that is requested meanwhile.
func (s *Service) archiveRest(ctx context.Context, l *lease.Lease, e ending) error {
	if e.last == nil {
		return nil // there is nothing to archive
	}
	if list, err := s.registry.List(ctx); err != nil || list.Of(e.name).GetWithoutArchive() {
		return err
	}
	s.waiting(ctx, e.name, fmt.Errorf("the graph service %s archives the log, up to commit %d, in %s", s.c.Instance, e.last.GetSequence(), s.c.Archive))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { cancel(s.archiveNoMore(ctx, l, e.name)) }()
	err := archiver.Rest(ctx, archiver.Config{
		Realm: e.name, Store: s.c.Archive, Log: e.log, Dir: filepath.Join(s.c.Dir, archiverDir, e.name),
		Instance: s.c.Instance, Limits: s.c.ArchiveLimits, Now: s.c.Now, Logger: s.c.Log,
	}, e.last)
	switch {
	case err == nil, errors.Is(context.Cause(ctx), errWithoutArchive):
		return nil
	case context.Cause(ctx) != nil:
		return context.Cause(ctx)
	}
	return notArchived(err)
}

// errWithoutArchive ends the archiving of a log when its realm is to be deleted without it.
var errWithoutArchive = errors.New("the realm is deleted without archiving its log")

// archiveNoMore waits until the archiving of an ended log must stop, and returns why: the lease is
// lost, or the realm is to be deleted without archive.
func (s *Service) archiveNoMore(ctx context.Context, l *lease.Lease, name string) error {
	tick := time.NewTicker(listInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.Lost():
			return errors.New("the lease was lost before the log was archived")
		case <-tick.C:
		}
		if list, err := s.registry.List(ctx); err == nil && list.Of(name).GetWithoutArchive() {
			return errWithoutArchive
		}
	}
}
