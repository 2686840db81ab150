package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/services/graph/recording"
	"github.com/coppice-gc/coppice/services/graph/state"
)

type replayFlags struct {
	offline string
}

func (a *app) replayCommand() *cobra.Command {
	var f replayFlags
	c := &cobra.Command{
		Use:     "replay FILE",
		GroupID: "operate",
		Short:   "Make objects again of a recorded log",
		Long: `Replay a file that 'coppice record' has written, from its first commit to its last.

--offline DIR replays it into a directory, without a server. Then the commands that read
(get, describe, tree, explain, events, plan, verify) take --offline DIR. DIR has a copy of
the file.

The recording must begin with the first commit of its realm. It is checked by the
checksums that chain its commits, not by a key.`,
		Example: `  coppice replay shop.log --offline shop
  coppice get deployments -A --offline shop`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if f.offline == "" {
				return a.usage(c, errors.New("it is not said where to: write --offline DIR"))
			}
			return a.replayOffline(c.Context(), args[0], f.offline)
		},
	}
	c.Flags().StringVar(&f.offline, "offline", "", "replay into this directory, which must be empty or not exist")
	return c
}

// replayOffline replays a recording into a directory.
func (a *app) replayOffline(ctx context.Context, file, dir string) error {
	start := a.now()
	r, err := a.openRecorded(file, "")
	if err != nil {
		return err
	}
	if err := r.Close(); err != nil {
		return err
	}
	bar := &console.Bar{Label: "replaying", Noun: "commit", Now: a.now}
	if isTerminal(a.stderr) {
		bar.W = a.stderr
	}
	at := uint64(0)
	done, err := recording.Fold(ctx, file, dir, func(sequence, last uint64) {
		bar.Total = int64(last)
		bar.Add(int64(sequence - at))
		at = sequence
	})
	bar.Clear()
	if errors.Is(err, state.ErrLocked) {
		return fmt.Errorf("another command replays into %s: %w", dir, err)
	}
	if err != nil {
		return unusable(file, err)
	}
	_, err = fmt.Fprintf(a.stdout, "%s: replayed %s of %s in %s into %s, up to revision %d\n", file, console.Count(int(done.Events), "event"),
		console.Count(int(done.Commits), "commit"), a.now().Sub(start).Round(time.Millisecond), dir, done.Last.Revision)
	return err
}

// offlineFlag adds the flag of commands that can read a replayed recording.
func (a *app) offlineFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.offline, "offline", "", "read the recording that 'coppice replay --offline' has put into this directory, instead of a realm")
	_ = c.MarkFlagDirname("offline")
}

// offlineClient returns a client of the recording that --offline names, and the connection;
// when that is closed, the recording is, too.
func (a *app) offlineClient() (*client.Client, *nats.Conn, error) {
	if err := bus.CheckRealm(a.realm); err != nil {
		return nil, nil, err
	}
	r, err := recording.OpenRealm(a.offline, a.realm)
	if errors.Is(err, state.ErrLocked) {
		return nil, nil, fmt.Errorf("%s is in use by another command; try again when it has ended", a.offline)
	}
	if err != nil {
		return nil, nil, err
	}
	nc, err := r.Conn()
	if err != nil {
		return nil, nil, errors.Join(err, r.Close())
	}
	a.ending = r.Close
	return client.New(nc, client.WithRealm(a.realm), client.WithActor(offlineActor), client.WithTimeout(a.dial.Timeout), client.WithRetryTimeout(a.dial.Timeout)), nc, nil
}

// offlineActor is the actor of requests to a recording, which nothing records.
const offlineActor = "offline"
