package cli

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/services/graph/recording"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// OfflineFlag adds the flag of commands that can read a replayed recording.
func (a *App) OfflineFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.Offline, "offline", "", "read the recording that 'coppice replay --offline' has put into this directory, instead of a realm")
	_ = c.MarkFlagDirname("offline")
}

// offlineClient returns a client of the recording that --offline names, and the connection;
// when that is closed, the recording is, too.
func (a *App) offlineClient() (*client.Client, *nats.Conn, error) {
	if err := bus.CheckRealm(a.Realm); err != nil {
		return nil, nil, err
	}
	r, err := recording.OpenRealm(a.Offline, a.Realm)
	if errors.Is(err, state.ErrLocked) {
		return nil, nil, fmt.Errorf("%s is in use by another command; try again when it has ended", a.Offline)
	}
	if err != nil {
		return nil, nil, err
	}
	nc, err := r.Conn()
	if err != nil {
		return nil, nil, errors.Join(err, r.Close())
	}
	a.ending = r.Close
	return client.New(nc, client.WithRealm(a.Realm), client.WithActor(offlineActor), client.WithTimeout(a.Dial.Timeout), client.WithRetryTimeout(a.Dial.Timeout)), nc, nil
}

// offlineActor is the actor of requests to a recording, which nothing records.
const offlineActor = "offline"
