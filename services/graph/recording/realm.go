package recording

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/api/streams"
	"github.com/coppice-gc/coppice/services/graph/past"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/watch"
)

// Realm serves a folded recording under the name of a realm, to clients in this process: the
// API is that of a graph service, without commands, watches, consumers and warnings. The
// time is that of the last commit.
type Realm struct {
	server *natsd.Server
	file   *os.File
	state  *state.State
	log    *Log
	nc     *nats.Conn
	api    *serve.Server
	past   *past.Reader
	states *past.Cache // of past
	temp   string      // the directory of states
}

// ErrNoRecording is wrapped by the error of OpenRealm for a directory without a folded
// recording.
var ErrNoRecording = errors.New("there is no replayed recording")

// OpenRealm serves the recording that Fold has folded into a directory. It must be closed.
// The error wraps ErrNoRecording, or state.ErrLocked if another process serves it.
func OpenRealm(dir, name string) (r *Realm, err error) {
	r = &Realm{}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	if r.file, err = os.Open(filepath.Join(dir, logName)); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("%s: %w; make one with 'coppice replay FILE --offline DIR'", dir, ErrNoRecording)
		}
		return r, err
	}
	info, err := r.file.Stat()
	if err != nil {
		return r, err
	}
	if r.log, err = Open(r.file, info.Size()); err != nil {
		return r, fmt.Errorf("%s: %w", r.file.Name(), err)
	}
	if r.state, err = state.Open(filepath.Join(dir, stateName), state.Config{}); err != nil {
		return r, err
	}
	if have, want := r.state.Checkpoint(), r.log.info.Last; have.GetSequence() != want.Sequence || have.GetChecksum() != want.Checksum {
		return r, fmt.Errorf("%s: the state is that of commit %d, and the recording ends with commit %d: replay it again", dir, have.GetSequence(), want.Sequence)
	}
	if r.server, err = natsd.Start(natsd.Config{Logf: func(string, ...any) {}}); err != nil {
		return r, err
	}
	if r.nc, err = r.Conn(); err != nil {
		return r, err
	}
	if err := r.openPast(dir, name); err != nil {
		return r, err
	}
	c := serve.Config{Realm: name, Conn: r.nc, AnyActor: true, State: r.state, Instance: dir, Log: slog.New(slog.DiscardHandler)}
	r.api, err = api.ServeRecording(c, api.ReplicaConfig{
		Reached: r.reached, Now: r.now,
		Streams: streams.Config{Verify: r.verify, Log: r.log, Heartbeat: watch.DefaultHeartbeat},
	}, r.past)
	if err != nil {
		return r, err
	}
	return r, r.nc.Flush()
}

// openPast opens the past of the recording. Its states are stored next to the present state, may each need
// as much room as that one, and are deleted when the realm is closed.
func (r *Realm) openPast(dir, name string) (err error) {
	r.temp = filepath.Join(dir, pastName)
	if err = os.RemoveAll(r.temp); err != nil { // of a process that was killed: only one has the state open
		return err
	}
	if r.states, err = past.NewCache(r.temp, past.Limits{Bytes: math.MaxInt64}); err != nil {
		return err
	}
	r.past = r.states.Realm(past.Config{
		Realm: name, Log: r.log, Keys: r.log.keys, State: r.state, Now: r.now, Logger: slog.New(slog.DiscardHandler),
	})
	return nil
}

// now returns the time of the last commit.
func (r *Realm) now() time.Time { return lifecycle.Time(r.state.Checkpoint().GetTime()).Time() }

// Conn returns a connection to the realm. The caller closes it.
func (r *Realm) Conn() (*nats.Conn, error) { return nats.Connect("", r.server.Options("")...) }

// Close ends the service.
func (r *Realm) Close() error {
	var errs []error
	if r.api != nil {
		errs = append(errs, r.api.Stop())
	}
	if r.nc != nil {
		r.nc.Close()
	}
	if r.server != nil {
		errs = append(errs, r.server.Shutdown())
	}
	if r.past != nil {
		errs = append(errs, r.past.Close())
	}
	if r.states != nil {
		errs = append(errs, r.states.Close())
	}
	if r.temp != "" {
		errs = append(errs, os.RemoveAll(r.temp))
	}
	if r.state != nil {
		errs = append(errs, r.state.Close())
	}
	if r.file != nil {
		errs = append(errs, r.file.Close())
	}
	return errors.Join(errs...)
}

// reached waits until ctx ends for a revision that the recording does not have.
func (r *Realm) reached(ctx context.Context, revision uint64) error {
	if r.state.Checkpoint().GetRevision() >= revision {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// verify compares the state with the recording.
func (r *Realm) verify(ctx context.Context, _ bool, progress func(sequence, last uint64)) (*coppicev1.VerifyReply, error) {
	snap := r.state.Snapshot()
	v, err := replay.Verify(ctx, snap, r.log, r.log.keys, nil, progress)
	return v, errors.Join(err, snap.Close())
}
