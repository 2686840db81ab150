package model_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/dirstore"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/poll"
	"github.com/coppice-gc/coppice/services/graph/archiver"
)

// The log of a world is cut once, between two scripts, and all services continue with what is
// left of it and the archive.

// eager archives within milliseconds.
var eager = archiver.Limits{SegmentAge: 50 * time.Millisecond, SnapshotAge: 100 * time.Millisecond, Interval: 10 * time.Millisecond, Pause: 10 * time.Millisecond}

// retained is the least retention of a log, and old more than the age at which it is cut.
const (
	retained = "10m"
	old      = 9 * time.Minute
)

// now is the time of the services and of the scripts.
func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

// newID returns the id of a command, which contains the time.
func (w *world) newID() uuid.UUID {
	id := uuid.Must(uuid.NewV7())
	ms := uint64(w.now().UnixMilli())
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	return id
}

// store opens the archive of the world.
func (w *world) store() archive.Store {
	store, err := dirstore.Create(filepath.Join(w.dir, "archive"))
	if err != nil {
		panic(err)
	}
	return store
}

// halt stops all services, and begin starts them.
func (w *world) halt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	var wg sync.WaitGroup
	for kind, list := range w.others {
		for _, s := range list {
			wg.Go(s.stop)
		}
		w.others[kind] = nil
	}
	for _, g := range w.graphs {
		wg.Go(g.stop)
	}
	wg.Wait()
}

func (w *world) resume() {
	for i := range w.graphs {
		w.startGraph(w.ctx(), i)
	}
	w.restore()
}

// cut lets time pass until the services have archived the log and cut it. A command from before is then repeated, and a watch
// begins there. Then all services start again, the graph services without a state of their own, and must agree with the model.
func (w *world) cut(test context.Context) error {
	ctx, cancel := context.WithTimeout(test, 2*settleTime)
	defer cancel()
	setup := &script{tag: "setup", w: w, a: w.a}
	first, id := optionsCommand(arguments{"grace": "9m7s"}), w.newID()
	if err := setup.performAs(ctx, id, first, true); err != nil {
		return err
	}
	w.halt()
	w.limits = eager
	w.ahead.Add(int64(old))
	w.resume()
	if err := w.sync(ctx); err != nil {
		return err
	}
	w.a.mu.Lock()
	before := w.a.sequence
	w.a.mu.Unlock()
	for n := 0; ; n++ {
		c := optionsCommand(arguments{"grace": fmt.Sprintf("%dm", 10+n%2), "retention": retained})
		if err := setup.perform(ctx, c, false); err != nil {
			return err
		}
		if err := w.sync(ctx); err != nil {
			return err
		}
		info, err := w.log.Info(ctx)
		if err != nil {
			return err
		}
		if info.State.FirstSeq > before {
			break
		}
		if n%20 == 19 {
			w.ahead.Add(int64(old))
		}
	}
	if err := w.verify(test); err != nil {
		return fmt.Errorf("after a cut of the log: %w", err)
	}
	if _, err := setup.send(ctx, id, first); !errors.Is(err, client.ErrOutcomeUnknown) { // that it has no effect is checked with the log
		return errors.Join(errors.New("a command whose commit was cut is repeated, and its outcome is not unknown"), err)
	}
	if err := w.watchBefore(ctx); !errors.Is(err, client.ErrExpired) {
		return errors.Join(errors.New("a watch from a commit on that was cut is not refused as expired"), err)
	}
	w.halt()
	for i := range w.graphs {
		if err := os.RemoveAll(filepath.Join(w.dir, fmt.Sprint("graph-", i))); err != nil {
			return err
		}
	}
	w.limits = archiver.Limits{}
	w.resume()
	if err := w.agrees(ctx); err != nil {
		return err
	}
	return w.verify(test)
}

// watchBefore returns the first error of a watch from the beginning of the realm on, nil if it ends without one.
func (w *world) watchBefore(ctx context.Context) error {
	operator := client.New(w.nc, client.WithActor(bus.RoleOperator))
	for _, err := range operator.Resource(client.Resource{Plural: "namespaces"}, "").Watch(ctx, client.FromRevision(1)) {
		if err != nil {
			return err
		}
	}
	return nil
}

// agrees waits until the API returns all objects as the model has them.
func (w *world) agrees(ctx context.Context) error {
	w.a.mu.Lock()
	var tags []string
	for tag := range w.a.of {
		if tag != "" && tag != "setup" {
			tags = append(tags, tag)
		}
	}
	w.a.mu.Unlock()
	slices.Sort(tags)
	for _, tag := range tags {
		s := &script{tag: tag, w: w, a: w.a}
		var last error
		if err := poll.Until(ctx, func() (bool, error) {
			w.a.mu.Lock()
			m := w.a.project(tag)
			w.a.mu.Unlock()
			list, _ := m.actions(w.now().UnixMicro())
			left := required(list)
			if last = fmt.Errorf("there is still to do: %v", left); len(left) == 0 {
				last = s.told(ctx, m)
			}
			return last == nil, s.failed()
		}); err != nil {
			return fmt.Errorf("after the cut of the log, script %s: %w; %w", tag, err, last)
		}
	}
	return nil
}
